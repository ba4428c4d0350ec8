package pg

import (
	"encoding/json"
	"errors"
	"fmt"

	"everloop/domain"
)

// Box encrypts values, each for one purpose.
type Box interface {
	Seal(purpose string, value []byte) ([]byte, error)
	Open(purpose string, sealed []byte) ([]byte, error)
}

// envPurpose is the same for all sessions, so that a row can be copied in SQL.
const envPurpose = "session-env"

// sealedEnv writes and reads jsonb values. A domain.SessionEnv is written as a JSON
// string that holds the sealed variables, an empty one as {}. One that an earlier
// version of the service wrote is an object, and is read as well.
type sealedEnv struct{ box Box }

func (s sealedEnv) marshal(v any) ([]byte, error) {
	env, ok := v.(domain.SessionEnv)
	if !ok || len(env) == 0 || s.box == nil {
		return json.Marshal(v)
	}

	text, err := json.Marshal(env)
	if err != nil {
		return nil, err
	}

	sealed, err := s.box.Seal(envPurpose, text)
	if err != nil {
		return nil, err
	}

	return json.Marshal(sealed)
}

func (s sealedEnv) unmarshal(data []byte, v any) error {
	env, ok := v.(*domain.SessionEnv)
	if !ok || len(data) == 0 || data[0] != '"' {
		return json.Unmarshal(data, v)
	}

	if s.box == nil {
		return errors.New("open the environment of a session: there is no encryption key")
	}

	var sealed []byte
	if err := json.Unmarshal(data, &sealed); err != nil {
		return err
	}

	text, err := s.box.Open(envPurpose, sealed)
	if err != nil {
		return fmt.Errorf("open the environment of a session: %w", err)
	}

	return json.Unmarshal(text, env)
}
