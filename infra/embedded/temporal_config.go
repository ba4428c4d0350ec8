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
	"go.temporal.io/server/common/persistence/sql/sqlplugin/postgresql"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/postgresql/driver"
)

// temporalShards is the number of history shards. It is written into the database
// at first start and cannot be changed afterwards.
const temporalShards = 4

// Temporal opens a pool for each service and store, seven in all.
const (
	temporalPoolSize = 6
	// An idle connection costs PostgreSQL some 6 MB; the pools shrink soon after a
	// burst. Within a burst they stay open: connecting takes longer than a query.
	temporalPoolIdle = 15 * time.Second
)

// temporalHosts are the addresses of the four services.
type temporalHosts struct {
	bindIP, dialHost                    string // of the frontend
	frontend, history, matching, worker int    // ports
}

// temporalServerConfig is the static configuration.
func temporalServerConfig(hosts temporalHosts, databaseURL string) *config.Config {
	const active = "active"
	service := func(ip string, port int) config.Service {
		return config.Service{RPC: config.RPC{BindOnIP: ip, GRPCPort: port}}
	}
	frontend := joinHostPort(hosts.dialHost, hosts.frontend)
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
		Services: map[string]config.Service{
			"frontend": service(hosts.bindIP, hosts.frontend),
			"history":  service("127.0.0.1", hosts.history),
			"matching": service("127.0.0.1", hosts.matching),
			"worker":   service("127.0.0.1", hosts.worker),
		},
		// Required: without it the server's own workers have no client.
		PublicClient: config.PublicClient{HostPort: frontend},
	}
	cfg.Global.Membership = config.Membership{BroadcastAddress: "127.0.0.1", MaxJoinDuration: 30 * time.Second}
	cfg.Archival.History.State = "disabled"
	cfg.Archival.Visibility.State = "disabled"
	cfg.NamespaceDefaults.Archival.History.State = "disabled"
	cfg.NamespaceDefaults.Archival.Visibility.State = "disabled"
	return cfg
}

// temporalSQL is a store in one database.
func temporalSQL(databaseURL, database string) *config.SQL {
	return &config.SQL{
		PluginName:   postgresql.PluginNamePGX,
		DatabaseName: database,
		MaxConns:     temporalPoolSize,
		Connect: func(cfg *config.SQL) (*sqlx.DB, error) {
			dsn, err := databaseAt(databaseURL, cfg.DatabaseName, map[string]string{
				"application_name": "temporal",
				// Everloop's truth is in its own database, committed synchronously to
				// the same write-ahead log. Asynchronous commits here lose at most a
				// suffix of that log, never something in its middle, and any later
				// synchronous commit makes them durable too. A kill of either process
				// loses nothing; what a power cut takes, the reconciler and the sweep
				// of the inbox mend from Everloop's rows.
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
			db.MapperFunc(strcase.ToSnake) // Temporal's rows carry no db tags
			return db, nil
		},
	}
}

// temporalDynamicConfig holds the settings that differ from the server's defaults.
func temporalDynamicConfig() dynamicconfig.StaticClient {
	return dynamicconfig.StaticClient{
		// Each queue reader takes one token a poll. At the default of 20 a second
		// every workflow task waits up to 50 ms for its token.
		dynamicconfig.TransferProcessorMaxPollRPS.Key(): 200,
		dynamicconfig.TimerProcessorMaxPollRPS.Key():    200,
		dynamicconfig.OutboundProcessorMaxPollRPS.Key(): 200,
		// Except for the list of runs, which only operators read: writing a row of its
		// table computes 59 columns and enters 73 indexes. Four times a second, the
		// start and the changes of a run that has closed meanwhile are not written.
		dynamicconfig.VisibilityProcessorMaxPollRPS.Key(): 4,
		dynamicconfig.VisibilityTaskBatchSize.Key():       1000,
		// A missed close notification costs a waiter this long (default 20 s).
		dynamicconfig.HistoryLongPollExpirationInterval.Key(): 2 * time.Second,
		// One machine gains nothing from partitioned task queues.
		dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():  1,
		dynamicconfig.MatchingNumTaskqueueWritePartitions.Key(): 1,
		// A run that continues as new waits until its predecessor is this old
		// (default 1 s): the pause before the next queued message of a session.
		dynamicconfig.WorkflowIdReuseMinimalInterval.Key(): 10 * time.Millisecond,
		// The default of 10 list calls a second is one dashboard.
		dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance.Key(): 200,
		// Caps the cache of histories, counted in entries (default 128000).
		dynamicconfig.HistoryCacheHostLevelMaxSize.Key(): 8096,
		// The server would ask its makers for news once a day.
		dynamicconfig.EnableServerVersionCheck.Key(): false,
	}
}

// joinHostPort is net.JoinHostPort for a number.
func joinHostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
