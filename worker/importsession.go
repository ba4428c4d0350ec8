package worker

import (
	"go.temporal.io/sdk/worker"

	"everloop/activities/background"
	"everloop/activities/contract"
)

// RegisterImports binds the imports of sessions to their names.
func RegisterImports(w worker.ActivityRegistry, imports *background.Imports) {
	contract.LoadImport.Handle(w, imports.LoadImport)
	contract.AbortImport.Handle(w, imports.AbortImport)
}
