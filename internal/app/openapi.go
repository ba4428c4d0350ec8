package app

import (
	"os"

	"everloop/api"
	"everloop/internal/release"
)

// OpenAPI prints the OpenAPI document of the REST interface, the one that a running
// service of this version serves.
type OpenAPI struct{}

// Run implements the command.
func (OpenAPI) Run() error {
	document, err := api.Document(release.Version)
	if err != nil {
		return err
	}

	_, err = os.Stdout.Write(append(document, '\n'))

	return err
}
