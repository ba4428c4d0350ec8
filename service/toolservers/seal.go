package toolservers

import (
	"encoding/json"
	"fmt"

	"everloop/domain/toolserver"
)

// kept is the encrypted part of a tool server, as JSON.
type kept struct {
	Env     map[string]string `json:"env,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

func purpose(serverID string) string { return "mcp/" + serverID }

func (c *Store) seal(s *toolserver.Record) error {
	text, err := json.Marshal(kept{s.Env, s.Headers})
	if err != nil {
		return err
	}

	s.Sealed, err = c.box.Seal(purpose(s.ID), text)

	return err
}

func (c *Store) open(s *toolserver.Record) error {
	text, err := c.box.Open(purpose(s.ID), s.Sealed)

	var k kept
	if err == nil {
		err = json.Unmarshal(text, &k)
	}

	if err != nil {
		return fmt.Errorf("open the secrets of tool server %s: %w", s.ID, err)
	}

	s.Env, s.Headers, s.Sealed = k.Env, k.Headers, nil

	return nil
}

// opened decrypts a record that was read without an error.
func (c *Store) opened(r toolserver.Record, err error) (toolserver.Record, error) {
	if err == nil {
		err = c.open(&r)
	}

	return r, err
}

func (c *Store) openAll(list []toolserver.Record, err error) ([]toolserver.Record, error) {
	for i := range list {
		if err == nil {
			err = c.open(&list[i])
		}
	}

	if err != nil {
		return nil, err
	}

	return list, nil
}
