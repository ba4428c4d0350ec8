package gateway

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"

	"everloop/companions/edge"
)

// masked replaces a secret in responses. Writing it back leaves the stored secret unchanged.
const masked = "***"

//go:embed page.html
var page string

// showPage serves the page of the management interface. The page contains no secret: it prompts
// for the operator's key.
func showPage(w http.ResponseWriter, _ *http.Request) {
	_, script, _ := strings.Cut(page, "<script>")
	script, _, _ = strings.Cut(script, "</script>")
	sum := sha256.Sum256([]byte(script))
	head := w.Header()
	head.Set("Content-Type", "text/html; charset=utf-8")
	head.Set("Content-Security-Policy", "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; "+
		"script-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")

	_, _ = io.WriteString(w, page) // the client may have disconnected
}

// managed accepts the operator's key of the gateway, and keys of administrators of the agent.
func (s *Service) managed(next func(http.ResponseWriter, *http.Request, *caller)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		callers := s.table().callers

		by := find(callers, credential(r))
		if by == nil {
			if fault := s.administers(r); fault != nil {
				writeError(w, fault)
				return
			}

			by = callers[0]
		}

		next(w, r, by)
	}
}

// administers checks with the agent whether the key of a request is an administrator's.
func (s *Service) administers(r *http.Request) *apiError {
	if s.cfg.Credentials == nil || credential(r) == "" {
		return noKey()
	}

	who, err := s.cfg.Credentials.Check(r.Context(), edge.Client(r), credential(r))
	refused, _ := errors.AsType[*edge.Problem](err)

	switch {
	case err == nil && who.Administers():
		return nil
	case err == nil:
		return managersOnly()
	case refused != nil && refused.Status == http.StatusUnauthorized:
		return noKey()
	case refused != nil && refused.Status == http.StatusForbidden:
		return managersOnly()
	case refused != nil && refused.Status == http.StatusTooManyRequests:
		return tooMany(refused.Code, refused.Detail)
	default:
		return sourceFault(http.StatusServiceUnavailable, "agent_unavailable", "the agent, which checks the key, does not answer")
	}
}

func managersOnly() *apiError {
	return &apiError{
		status: http.StatusForbidden, Type: "permission_error", Code: "operator_only",
		Message: "only the operator's key, or an API key of an administrator of the agent, opens the management interface",
	}
}

// operatorOnly rejects keys of the gateway other than the operator's.
func (s *Service) operatorOnly(next http.HandlerFunc) func(http.ResponseWriter, *http.Request, *caller) {
	return func(w http.ResponseWriter, r *http.Request, by *caller) {
		if by != s.table().callers[0] {
			writeError(w, managersOnly())
			return
		}

		next(w, r)
	}
}

func tag(text []byte) string {
	sum := sha256.Sum256(text)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

// showConfig returns the settings in effect, without their secrets.
func (s *Service) showConfig(w http.ResponseWriter, _ *http.Request) {
	s.files.Lock()
	set, version := s.table().set.masked(), tag(s.seen)
	s.files.Unlock()
	w.Header().Set("ETag", version)
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, http.StatusOK, set)
}

// masked returns a copy with masked secrets.
func (s Settings) masked() Settings {
	s.Keys, s.Sources = append([]Key{}, s.Keys...), append([]Source{}, s.Sources...)
	for i := range s.Keys {
		s.Keys[i].Key = masked
	}

	for i := range s.Sources {
		if s.Sources[i].APIKey != "" {
			s.Sources[i].APIKey = masked
		}
	}

	return s
}

// unmask replaces masked secrets with the secrets of the previous settings. The key of a source
// is not reused for another address.
func (s *Settings) unmask(before Settings) error {
	for i, k := range s.Keys {
		if k.Key != masked {
			continue
		}

		s.Keys[i].Key = ""
		for _, old := range before.Keys {
			if old.Name == k.Name {
				s.Keys[i].Key = old.Key
			}
		}
	}

	for i, one := range s.Sources {
		if one.APIKey != masked {
			continue
		}

		s.Sources[i].APIKey = ""
		for _, old := range before.Sources {
			if old.Name == one.Name && old.BaseURL == one.BaseURL && old.Kind == one.Kind {
				s.Sources[i].APIKey = old.APIKey
			}
		}

		if s.Sources[i].APIKey == "" {
			return fmt.Errorf("sources[%d].api_key must be given again: the source is new, or its address has changed", i)
		}
	}

	return nil
}

// putConfig replaces the settings, in the file and in effect.
func (s *Service) putConfig(w http.ResponseWriter, r *http.Request) {
	in := s.bodies.Open(w, r)
	defer in.Release()

	text, err := io.ReadAll(http.MaxBytesReader(w, in, maxSettings))
	if edge.Late(err) || errors.Is(err, edge.ErrBusy) {
		writeError(w, unread(err))
		return
	}

	if err != nil {
		writeError(w, invalid("the body could not be read, or exceeds 4 MiB"))
		return
	}

	var set Settings

	err = json.Unmarshal(text, &set) // unknown fields are ignored
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		writeError(w, invalidConfig(cmp.Or(strings.Trim(wrong.Field, "."), "the body")+" has a value of the wrong type"))
		return
	}

	if err != nil {
		writeError(w, invalid("the body is not a configuration: "+err.Error()))
		return
	}

	version, fault := s.replace(set, r.Header.Get("If-Match"))
	if fault != nil {
		writeError(w, fault)
		return
	}

	s.warmUp()
	w.Header().Set("ETag", version)
	writeJSON(w, http.StatusOK, s.table().set.masked())
}

func invalidConfig(message string) *apiError {
	e := invalid(message)
	e.status, e.Code = http.StatusUnprocessableEntity, "invalid_config"

	return e
}

func (s *Service) replace(set Settings, match string) (version string, fault *apiError) {
	s.files.Lock()
	defer s.files.Unlock()

	s.reload() // includes an editor's changes since

	if match != "" && match != "*" && match != tag(s.seen) {
		e := invalid("the configuration has changed since it was read: read it again")
		e.status, e.Code = http.StatusPreconditionFailed, "config_changed"

		return "", e
	}

	before := s.table()
	if fault := set.fileOnly(before.set); fault != nil {
		return "", fault
	}

	if err := errors.Join(set.unmask(before.set), set.check(), set.keysApart(s.cfg.Key)); err != nil {
		return "", invalidConfig(err.Error())
	}

	text, err := merged(s.cfg.File, set)
	if errors.Is(err, errNoYAML) {
		e := invalid("config.yaml is not YAML, and writing it would lose what is in it: correct the file first")
		e.status, e.Code = http.StatusConflict, "config_unreadable"

		return "", e
	}

	if err == nil {
		err = writeFile(s.cfg.File, text)
	}

	if err != nil {
		s.log.Error("failed to write the configuration of the gateway", "error", err)

		return "", sourceFault(http.StatusInternalServerError, "config_not_written",
			"the configuration could not be written; the log says why")
	}

	s.seen = text
	s.use(set)
	s.log.Info("configuration of the gateway written", "sources", len(set.Sources), "keys", len(set.Keys))

	return tag(text), nil
}

var errNoYAML = errors.New("the file is not YAML")

// merged returns the file with other settings and its comments.
func merged(file string, set Settings) ([]byte, error) {
	before, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}

	var document, fresh yaml.Node
	if err := fresh.Encode(set); err != nil {
		return nil, err
	}

	if yaml.Unmarshal(before, &document) != nil {
		return nil, errNoYAML
	}

	if len(document.Content) == 0 {
		document = yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{{Kind: yaml.MappingNode}}}
	}

	merge(document.Content[0], &fresh)

	var out bytes.Buffer

	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)

	if err := errors.Join(encoder.Encode(&document), encoder.Close()); err != nil {
		return nil, err
	}

	if _, err := Parse(out.Bytes()); err != nil {
		return nil, err
	}

	return out.Bytes(), nil
}

// merge sets a node to the value of another one and preserves the comments of unchanged nodes.
func merge(into, from *yaml.Node) {
	if into.Kind != from.Kind || into.Kind == yaml.ScalarNode {
		if into.Kind != from.Kind || into.Value != from.Value {
			into.Kind, into.Tag, into.Value, into.Style = from.Kind, from.Tag, from.Value, from.Style
			into.Content, into.Alias = from.Content, nil
		}

		return
	}

	if len(into.Content) == 0 {
		into.Style = from.Style
	}

	var content []*yaml.Node

	if into.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(into.Content); i += 2 { // in the order of the file
			if value := field(from, into.Content[i].Value); value != nil {
				merge(into.Content[i+1], value)
				content = append(content, into.Content[i], into.Content[i+1])
			}
		}

		for i := 0; i+1 < len(from.Content); i += 2 {
			if field(into, from.Content[i].Value) == nil {
				content = append(content, from.Content[i], from.Content[i+1])
			}
		}

		into.Content = content

		return
	}

	for _, item := range from.Content {
		for _, old := range into.Content {
			if name := identity(item); name != "" && identity(old) == name {
				merge(old, item)
				item = old

				break
			}
		}

		content = append(content, item)
	}

	into.Content = content
}

// field returns the value of a field; nil: there is none.
func field(node *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			return node.Content[i+1]
		}
	}

	return nil
}

// identity returns the key that identifies an item of a list.
func identity(node *yaml.Node) string {
	if node.Kind == yaml.ScalarNode {
		return node.Value
	}

	for _, name := range []string{"name", "id"} {
		if value := field(node, name); value != nil {
			return value.Value
		}
	}

	return ""
}
