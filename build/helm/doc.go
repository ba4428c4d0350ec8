// Package helm tests the chart for Kubernetes in build/helm/everloop. It is its own module, so
// that the product does not depend on Helm.
package helm
