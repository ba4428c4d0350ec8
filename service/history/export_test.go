package history

// Config returns the configuration of moves and views, for tests that change a part of it.
func (d *Service) Config() *Config { return &d.cfg }

// Config returns the configuration of captures, for tests that change a part of it.
func (c *Capturer) Config() *Config { return &c.cfg }
