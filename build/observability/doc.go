// Package observability tests the rules for Prometheus and the dashboard for Grafana. It is
// its own module, so that the product does not depend on Prometheus.
package observability
