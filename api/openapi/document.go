// Package openapi builds the OpenAPI document of the REST interface, and the page
// that shows it. It takes everything from the registered operations and their
// types; it must not know one of them.
package openapi

import (
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"everloop/api/httpx"
)

// Frame returns the OpenAPI document before its operations, which enter it as they are
// registered. Complete adds what their types do not say.
func Frame(version string) huma.Config {
	cfg := huma.DefaultConfig(title, version)
	if cfg.Info.Version == "" {
		cfg.Info.Version = "0.0.0"
	}

	cfg.Info.Description = introduction
	cfg.Info.License = &huma.License{Name: "Apache License 2.0", Identifier: "Apache-2.0"}
	cfg.Servers = []*huma.Server{{URL: "/", Description: "This service."}}
	cfg.Tags = tags
	cfg.OpenAPIPath, cfg.DocsPath, cfg.SchemasPath = "", "", "" // served by operations of their own
	cfg.CreateHooks = nil                                       // they add $schema to every body
	cfg.AllowAdditionalPropertiesByDefault = true
	cfg.Components.Schemas = NewSchemas(schemaPrefix, schemaName)
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"bearer": {Type: "http", Scheme: "bearer", Description: "An API key, or a token of the identity service. " +
			"The names listed with it are the scopes, one of which a restricted key needs."},
		"cookie": {
			Type: "apiKey",
			In:   "cookie",
			Name: httpx.SessionCookie,
			Description: "The session of the identity service; over HTTPS it is __Host-" + httpx.SessionCookie + ". " +
				"A request by cookie that changes something needs the Origin of this service.",
		},
	}

	return cfg
}

const schemaPrefix = "#/components/schemas/"

// schemaName names a schema as its type, and a body without one as its operation:
// create-user has CreateUserRequest.
func schemaName(t reflect.Type, hint string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(typeName(t, hint), "-") {
		b.WriteString(strings.ToUpper(word[:min(1, len(word))]) + word[min(1, len(word)):])
	}

	return b.String()
}

// introduction opens the document.
const introduction = `Durable agent sessions over REST.

A session holds a conversation, a workspace of files and the work of an agent. What the service has accepted survives crashes. ` +
	`Ids are opaque strings that sort by creation. Times are ISO 8601 in UTC. Unknown fields and parameters of a request are ignored, ` +
	`and responses may gain fields. A session of another user is reported as not found, unless it is shared.

All errors have one shape, application/problem+json (RFC 9457): code identifies the error for programs, and retryable says whether ` +
	`the same request may succeed later. Each operation lists its codes by status in x-error-codes.`

// tags are the areas of the document, in the order in which they are shown.
var tags = []*huma.Tag{
	{Name: "Sessions", Description: "Conversations with an agent: create, list, configure, share, delete."},
	{Name: "Chat", Description: "Messages to the agent, answers to its questions, and the events of its work."},
	{Name: "Messages", Description: "Pictures of messages."},
	{Name: "History", Description: "Checkpoints, branches, rewind, compaction and the size of the context."},
	{Name: "Files", Description: "The workspace of a session. " +
		"Paths are relative to it; one that leaves it, also through a link, is rejected."},
	{Name: "Background tasks", Description: "Commands that continue after their chat has ended."},
	{Name: "Skills", Description: "Packages of instructions that the agent loads when it needs them."},
	{Name: "Tool servers", Description: "Servers of the Model Context Protocol, whose tools the agent may call."},
	{Name: "Annotations", Description: "Notes of people on turns, tool calls and files."},
	{Name: "Scheduled tasks", Description: "Prompts that are sent at the times of a cron expression."},
	{Name: "Triggers", Description: "Work that starts when an event arrives at an address, or when a run ends."},
	{Name: "Webhooks", Description: "Addresses that are sent events, by the rules of Standard Webhooks."},
	{Name: "Memories", Description: "What the agent remembers from one session to the next."},
	{Name: "Solutions", Description: "Prepared setups that sessions are created with, and their roles."},
	{Name: "Production agents", Description: "Templates of which sessions and agent instances are made."},
	{Name: "Agent instances", Description: "Agents at work, which issues are assigned to, and the runtimes that they have."},
	{Name: "Production workspaces", Description: "Members with roles, squads, and sessions that members may read."},
	{Name: "Issues", Description: "Issues of a production workspace: reads, comments, and the runs of agents on them."},
	{Name: "Production solutions", Description: "Multi-agent DAGs and architectures as documents with versions: " +
		"save, validate, publish, compare and roll back."},
	{Name: "Sharing", Description: "Public, read-only links to sessions."},
	{Name: "Replay", Description: "Replays of recorded sessions, which the caller can take over."},
	{Name: "Import and export", Description: "Sessions as ZIP archives."},
	{Name: "Extra info", Description: "Values that clients store with a session."},
	{Name: "Apps", Description: "Directories of workspaces, published as sites."},
	{Name: "Tokenization", Description: "Token counts."},
	{Name: "Registry", Description: "The skill registry of this installation. Without one, each request fails with " +
		"registry_not_configured."},
	{Name: "Environment", Description: "Variables of the tools, the compute environment, the configuration and the checks of the service."},
	{Name: "User", Description: "Settings that front ends store for the caller."},
	{Name: "API keys", Description: "The caller's keys. A key that is restricted to scopes cannot manage keys."},
	{Name: "Authentication", Description: "The current user."},
	{Name: "Administration", Description: "For administrators: users, roles, the audit trail and workflow runs."},
	{Name: "Service", Description: "Version, health, configuration, metrics and this document."},
}

// title names the interface in the document and on its page.
const title = "Everloop"
