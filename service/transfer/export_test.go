package transfer

// Config is the configuration, for tests that change a part of it.
func (d *Service) Config() *Config { return &d.cfg }
