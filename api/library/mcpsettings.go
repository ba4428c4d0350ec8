package library

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"everloop/api/fields"
	"everloop/domain"
	"everloop/domain/toolserver"
)

// applyMCPSettings writes what was sent into a tool server and checks the whole.
func applyMCPSettings(r *toolserver.Record, in MCPSettings) error {
	before := r.MCPServer

	fields.Set(&r.Name, in.Name)
	fields.Set(&r.Preset, in.Preset)
	fields.Set(&r.Transport, in.Transport)

	if r.OfPreset() && r.Transport == "" {
		r.Transport = toolserver.Stdio
	}

	fields.Set(&r.Command, in.Command)
	fields.Set(&r.Args, in.Args)
	fields.Set(&r.URL, in.URL)
	fields.Set(&r.Tools, in.Tools)
	fields.Set(&r.TimeoutS, in.Timeout)
	fields.Set(&r.Enabled, in.Enabled)
	fields.Set(&r.TrustHints, in.TrustHints)

	if !toolserver.SameReceiver(before, r.MCPServer) {
		if err := newSecrets(before, in); err != nil {
			return err
		}
	}

	if err := redirectsSecrets(before.Env, in.Env); err != nil {
		return err
	}

	var err error
	if in.Env != nil {
		if r.Env, err = fields.CleanEnv(unmasked(*in.Env, r.Env)); err != nil {
			return err
		}
	}

	if in.Headers != nil {
		if r.Headers, err = cleanHeaders(unmasked(*in.Headers, r.Headers)); err != nil {
			return err
		}
	}

	return checkMCPServer(r)
}

// newSecrets rejects a change of who receives the secrets of a server unless they come
// along: stored ones stay with their receiver.
func newSecrets(before domain.MCPServer, in MCPSettings) error {
	for _, secrets := range []struct {
		field  string
		stored map[string]string
		sent   *map[string]string
	}{{"env", before.Env, in.Env}, {"headers", before.Headers, in.Headers}} {
		stays := secrets.sent == nil && len(secrets.stored) > 0
		if secrets.sent != nil {
			for name, v := range *secrets.sent {
				_, stored := secrets.stored[name]
				stays = stays || stored && v == masked
			}
		}

		if stays {
			return secretsRequired(secrets.field,
				"must be sent in clear with a change of transport, url, command, args or preset, or as {} to drop the stored ones")
		}
	}

	return nil
}

func secretsRequired(field, why string) error {
	e := domain.Invalidf("body."+field, "%s", why)
	e.Code = "secrets_required"

	return e
}

// secretVariable matches the name of a variable that contains a secret and nothing else.
var secretVariable = regexp.MustCompile(`(?i)(^|_)(key|token|secret|password|passwd|pwd)$`)

// redirectsSecrets rejects an environment that keeps stored values next to new ones: a variable
// such as LD_PRELOAD, NODE_OPTIONS, a proxy or a base URL decides where the program sends the
// kept values. A stored secret may be replaced.
func redirectsSecrets(stored map[string]string, sent *map[string]string) error {
	if sent == nil {
		return nil
	}

	keeps, adds := false, false

	for name, v := range *sent {
		_, known := stored[name]

		switch {
		case known && v == masked:
			keeps = true
		case !known || !secretVariable.MatchString(name):
			adds = true
		}
	}

	if keeps && adds {
		return secretsRequired("env", "must be sent in clear as a whole with a new variable or another value of one that is not a secret")
	}

	return nil
}

// unmasked puts the known values instead of masked ones.
func unmasked(given, known map[string]string) map[string]string {
	out := make(map[string]string, len(given))
	for name, v := range given {
		if old, ok := known[name]; ok && v == masked {
			v = old
		}

		out[name] = v
	}

	return out
}

// checkMCPServer finds what does not fit together. Its errors repeat no value.
func checkMCPServer(r *toolserver.Record) error {
	switch {
	case r.Name == "":
		return domain.Invalidf("body.name", "is required")
	case r.Transport == "":
		return domain.Invalidf("body.transport", "is required")
	case r.Transport == toolserver.Stdio && strings.TrimSpace(r.Command) == "" && !r.OfPreset():
		return domain.Invalidf("body.command", "is required for a stdio server")
	case r.Transport == toolserver.Stdio && (r.URL != "" || len(r.Headers) > 0):
		return domain.Invalidf("body.url", "a stdio server has neither a URL nor headers")
	case r.Transport == toolserver.HTTP && (r.Command != "" || len(r.Args) > 0 || len(r.Env) > 0):
		return domain.Invalidf("body.command", "a server with HTTP has neither a command nor an environment")
	}

	if field, why := toolserver.PresetFault(r.MCPServer); field != "" {
		return domain.Invalidf("body."+field, "%s", why)
	}

	size := 0

	for _, arg := range append(slices.Clone(r.Args), r.Command) {
		if strings.ContainsRune(arg, 0) {
			return domain.Invalidf("body.args", "hold a NUL character")
		}

		size += len(arg)
	}

	if size > fields.MaxEnvBytes {
		return domain.Invalidf("body.args", "are larger than %d bytes", fields.MaxEnvBytes)
	}

	for _, tool := range r.Tools {
		if tool == "" || len(tool) > 256 {
			return domain.Invalidf("body.tools", "are names of 1 to 256 bytes")
		}
	}

	if r.Transport == toolserver.HTTP {
		return checkMCPAddress(r.URL)
	}

	return nil
}

func checkMCPAddress(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "" || u.Hostname() == "":
		return domain.Invalidf("body.url", "must be an address that starts with http:// or https://")
	case u.User != nil:
		return domain.Invalidf("body.url", "must not contain a user name or a password: send a header")
	case u.Fragment != "":
		return domain.Invalidf("body.url", "must not contain a fragment")
	}

	return nil
}

// Bounds of a server's headers.
const (
	maxMCPHeaders     = 64
	maxMCPHeaderBytes = 32 << 10
)

// ownHeaders belong to the protocol.
var ownHeaders = []string{
	"Accept", "Connection", "Content-Length", "Content-Type", "Host", "Last-Event-Id", "Mcp-Method", "Mcp-Name", "Mcp-Protocol-Version",
	"Mcp-Session-Id", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

func cleanHeaders(given map[string]string) (map[string]string, error) {
	if len(given) > maxMCPHeaders {
		return nil, domain.Invalidf("body.headers", "are more than %d", maxMCPHeaders)
	}

	out := make(map[string]string, len(given))
	size := 0

	for name, v := range given {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name), !httpguts.ValidHeaderFieldValue(v):
			return nil, domain.Invalidf("body.headers", "hold a name or value that no header can have")
		case slices.Contains(ownHeaders, canonical):
			return nil, domain.Invalidf("body.headers", "%s is set by the protocol", canonical)
		}

		if _, twice := out[canonical]; twice {
			return nil, domain.Invalidf("body.headers", "%s is there twice", canonical)
		}

		size += len(name) + len(v)
		out[canonical] = v
	}

	if size > maxMCPHeaderBytes {
		return nil, domain.Invalidf("body.headers", "are larger than %d bytes", maxMCPHeaderBytes)
	}

	return out, nil
}
