package main

import (
	"everloop/activities/tools"
	"everloop/api"
)

func (b *backend) tasks() api.Tasks { return nil }

func (b *backend) background() tools.Background { return nil }
