// Package workercomponent adds nothing to the workers of a namespace.
package workercomponent

import "go.uber.org/fx"

// Module provides nothing.
var Module = fx.Options()
