// Package helm tests the chart for Kubernetes in build/helm/everloop. It is a module of its own, so
// that the product does not depend on Helm.
package helm
