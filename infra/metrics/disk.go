package metrics

import "github.com/prometheus/client_golang/prometheus"

// Disk is what is free on the file system of a directory, and what of it sessions
// leave to the engines.
type Disk struct {
	FreeBytes, FreeInodes         int64
	ReservedBytes, ReservedInodes int64
}

// RegisterDisk shows the disk of a directory. A directory that cannot be asked, as one
// that is not made yet, has no series.
func RegisterDisk(registry *prometheus.Registry, directory string, read func() (Disk, error)) {
	gauge := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, nil, prometheus.Labels{"directory": directory})
	}
	registry.MustRegister(&disk{
		read:  read,
		bytes: gauge("everloop_disk_free_bytes", "Free bytes of the directory's file system."),
		inodes: gauge(
			"everloop_disk_free_inodes",
			"Free inodes of the directory's file system; 0 where it makes them as it needs them.",
		),
		reservedBytes:  gauge("everloop_disk_reserved_bytes", "Bytes that sessions leave free for the engines."),
		reservedInodes: gauge("everloop_disk_reserved_inodes", "Inodes that sessions leave free for the engines."),
	})
}

type disk struct {
	read                                         func() (Disk, error)
	bytes, inodes, reservedBytes, reservedInodes *prometheus.Desc
}

func (d *disk) Describe(descriptions chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{d.bytes, d.inodes, d.reservedBytes, d.reservedInodes} {
		descriptions <- desc
	}
}

func (d *disk) Collect(metrics chan<- prometheus.Metric) {
	now, err := d.read()
	if err != nil {
		return
	}

	metrics <- prometheus.MustNewConstMetric(d.bytes, prometheus.GaugeValue, float64(now.FreeBytes))

	metrics <- prometheus.MustNewConstMetric(d.inodes, prometheus.GaugeValue, float64(now.FreeInodes))

	metrics <- prometheus.MustNewConstMetric(d.reservedBytes, prometheus.GaugeValue, float64(now.ReservedBytes))

	metrics <- prometheus.MustNewConstMetric(d.reservedInodes, prometheus.GaugeValue, float64(now.ReservedInodes))
}
