package embedded

import (
	"net"
	"strconv"
	"time"

	"github.com/iancoleman/strcase"
	"github.com/jmoiron/sqlx"
	clusterconfig "go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/postgresql"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/postgresql/driver"
	"go.temporal.io/server/common/primitives"
)

// temporalShards is the number of history shards. It is stored in the database at the first start
// and cannot be changed afterwards.
const temporalShards = 4

// Temporal opens a pool for each service and store, seven in all.
const (
	temporalPoolSize = 6
	// An idle connection uses some 6 MB in PostgreSQL, so the pools shrink soon after a burst.
	// During a burst they stay open: connecting takes longer than a query.
	temporalPoolIdle = 15 * time.Second
)

// historyCacheEntries is the maximum number of runs in memory of Temporal's history service
// (default 128,000), some 30 kB each. It must exceed the number of concurrently active runs. The
// server can limit the cache by bytes instead, but then reads the size of a run without its lock,
// which the race detector reports.
const historyCacheEntries = 1024

// temporalPorts distinguish the services in the server's addresses. No port is opened:
// connections are made inside the process.
var temporalPorts = map[primitives.ServiceName]int{
	primitives.FrontendService: 1, primitives.HistoryService: 2, primitives.MatchingService: 3, primitives.WorkerService: 4,
}

// temporalHosts returns the addresses of the four services.
func temporalHosts() map[primitives.ServiceName]static.Hosts {
	hosts := map[primitives.ServiceName]static.Hosts{}
	for service, port := range temporalPorts {
		hosts[service] = static.SingleLocalHost(loopback(port))
	}

	return hosts
}

// temporalServerConfig returns the static configuration.
func temporalServerConfig(databaseURL string) *config.Config {
	const active = "active"

	frontend := loopback(temporalPorts[primitives.FrontendService])
	cfg := &config.Config{
		Persistence: config.Persistence{
			DefaultStore:     temporalDatabase,
			VisibilityStore:  temporalVisibilityDatabase,
			NumHistoryShards: temporalShards,
			DataStores: map[string]config.DataStore{
				temporalDatabase:           {SQL: temporalSQL(databaseURL, temporalDatabase)},
				temporalVisibilityDatabase: {SQL: temporalSQL(databaseURL, temporalVisibilityDatabase)},
			},
		},
		ClusterMetadata: &clusterconfig.Config{
			FailoverVersionIncrement: 10,
			MasterClusterName:        active,
			CurrentClusterName:       active,
			ClusterInformation: map[string]clusterconfig.ClusterInformation{
				active: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: frontend},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		// Required by the clients of the server's own workers.
		PublicClient: config.PublicClient{HostPort: frontend},
	}

	cfg.Services = map[string]config.Service{}
	for service, port := range temporalPorts {
		cfg.Services[string(service)] = config.Service{RPC: config.RPC{BindOnIP: "127.0.0.1", GRPCPort: port}}
	}

	cfg.Global.Membership = config.Membership{BroadcastAddress: "127.0.0.1", MaxJoinDuration: 30 * time.Second}
	cfg.Archival.History.State = "disabled"
	cfg.Archival.Visibility.State = "disabled"
	cfg.NamespaceDefaults.Archival.History.State = "disabled"
	cfg.NamespaceDefaults.Archival.Visibility.State = "disabled"

	return cfg
}

// temporalSQL returns the configuration of a store in one database.
func temporalSQL(databaseURL, database string) *config.SQL {
	return &config.SQL{
		PluginName:   postgresql.PluginNamePGX,
		DatabaseName: database,
		MaxConns:     temporalPoolSize,
		Connect: func(cfg *config.SQL) (*sqlx.DB, error) {
			dsn, err := databaseAt(databaseURL, cfg.DatabaseName, map[string]string{
				"application_name": "temporal",
				// Everloop's state is in its own database, committed synchronously to the same
				// write-ahead log. Asynchronous commits here lose at most a suffix of that log,
				// and any later synchronous commit makes them durable, too. A kill of either
				// process loses nothing; after a power failure the reconciler and the periodic
				// job of the inbox restore lost workflows from Everloop's rows.
				"synchronous_commit": "off",
			})
			if err != nil {
				return nil, err
			}

			db, err := (&driver.PGXDriver{}).CreateConnection(dsn)
			if err != nil {
				return nil, err
			}

			db.SetMaxOpenConns(cfg.MaxConns)
			db.SetMaxIdleConns(cfg.MaxConns)
			db.SetConnMaxIdleTime(temporalPoolIdle)
			db.MapperFunc(strcase.ToSnake) // Temporal's rows have no db tags

			return db, nil
		},
	}
}

// temporalDynamicConfig contains the settings that differ from the server's defaults.
func temporalDynamicConfig() dynamicconfig.StaticClient {
	return dynamicconfig.StaticClient{
		// Each queue reader takes one token per poll. At the default of 20 per second every
		// workflow task waits up to 50 ms.
		dynamicconfig.TransferProcessorMaxPollRPS.Key(): 200,
		dynamicconfig.TimerProcessorMaxPollRPS.Key():    200,
		dynamicconfig.OutboundProcessorMaxPollRPS.Key(): 200,
		// Slow down the visibility store, which only operators read: writing a row computes 59
		// columns and updates 73 indexes. At four polls per second, the start and the changes of
		// a run that has closed in the meantime are not written.
		dynamicconfig.VisibilityProcessorMaxPollRPS.Key(): 4,
		dynamicconfig.VisibilityTaskBatchSize.Key():       1000,
		// A missed close notification delays a waiter this long (default 20 s).
		dynamicconfig.HistoryLongPollExpirationInterval.Key(): 2 * time.Second,
		// On one machine partitioned task queues have no advantage.
		dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():  1,
		dynamicconfig.MatchingNumTaskqueueWritePartitions.Key(): 1,
		// A run that continues as new waits until its predecessor is this old (default 1 s): the
		// delay before the next queued message of a session.
		dynamicconfig.WorkflowIdReuseMinimalInterval.Key(): 10 * time.Millisecond,
		// One dashboard exceeds the default of 10 list requests per second.
		dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance.Key(): 200,
		dynamicconfig.HistoryCacheHostLevelMaxSize.Key():                 historyCacheEntries,
		// A replaced build of the workers counts as drained this long after its last run has
		// closed (default 3 min, for visibility stores with more lag).
		dynamicconfig.VersionDrainageStatusVisibilityGracePeriod.Key(): 30 * time.Second,
		dynamicconfig.VersionDrainageStatusRefreshInterval.Key():       30 * time.Second,
		// Cache of events for replication to other clusters; there are none.
		dynamicconfig.XDCCacheMaxSizeBytes.Key(): 0,
		// Disables the server's daily check for updates.
		dynamicconfig.EnableServerVersionCheck.Key(): false,
	}
}

// joinHostPort is net.JoinHostPort with a numeric port.
func joinHostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
