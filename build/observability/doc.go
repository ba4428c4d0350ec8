// Package observability tests the rules for Prometheus and the dashboard for Grafana. It is
// a module of its own, so that the product does not depend on Prometheus.
package observability
