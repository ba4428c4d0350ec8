package api

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"everloop/domain"
)

// exampleRequestID is the id of every request in the examples.
const exampleRequestID = "01a1fd9b-6416-7c68-9d3d-044707661ac6"

// refusalName names the answer of a status among the components, as NotFound.
func refusalName(status string) string {
	code, _ := strconv.Atoi(status)
	return strings.ReplaceAll(http.StatusText(code), " ", "")
}

// refusalAnswers are the answers that refuse, each with an example: one shape for
// all, so that operations only name them.
func refusalAnswers(schema *huma.Schema) map[string]*huma.Response {
	text := func(about, example string) *huma.Header {
		return &huma.Header{Description: about, Schema: &huma.Schema{Type: huma.TypeString}, Example: example}
	}
	all := map[string]*huma.Response{}
	for _, e := range []struct {
		about   string
		example *domain.Error
	}{
		{"The request could not be read, or a path leaves the workspace.", malformed("the body is not valid JSON")},
		{"No credentials, or wrong ones.", domain.Newf(domain.Unauthenticated, "unauthorized", "the credentials are missing or wrong")},
		{"The caller is known, but may not do this.", domain.Newf(domain.Forbidden, "scope_missing", "the key lacks the scope sessions:write")},
		{"There is no such thing, or it is somebody else's: the two are not told apart.", domain.Newf(domain.NotFound, "session_not_found", "the session does not exist")},
		{"The state does not allow it.", domain.Newf(domain.Conflict, "session_busy", "the session is busy")},
		{"It was there once.", domain.Newf(domain.Gone, "share_gone", "the link was revoked or has expired")},
		{"Over a limit of size.", tooLarge()},
		{"A body of another type, or a compressed one.", unsupportedBody()},
		{"The file has no such range.", domain.Newf(domain.Invalid, codeRange, "the file has no such range")},
		{"It was read, but a field is missing, of the wrong type or outside its bounds; errors names the fields.", domain.Invalidf("body.name", "is required")},
		{"Too much at once; Retry-After says when to try again.", domain.Newf(domain.RateLimited, "rate_limited", "too many requests")},
		{"A fault of the service; what happened is in its log.", domain.Newf(domain.Internal, "internal_error", "internal error")},
		{"Something that the service needs is down; the message names it.", domain.Newf(domain.Unavailable, "dependency_unavailable", "postgres is not available")},
	} {
		problem := problemOf(e.example, exampleRequestID)
		status := strconv.Itoa(problem.Status)
		headers := map[string]*huma.Header{"X-Request-Id": {Ref: "#/components/headers/" + headerRequestName}}
		switch problem.Status {
		case http.StatusUnauthorized:
			headers["WWW-Authenticate"] = text("How to authenticate.", "Bearer")
		case http.StatusTooManyRequests:
			headers["Retry-After"] = text("Seconds to wait.", "12")
			describeLimit(headers)
		case http.StatusServiceUnavailable:
			headers["Retry-After"] = text("Seconds to wait, where it is known.", "12")
		}
		all[refusalName(status)] = &huma.Response{
			Description: e.about, Headers: headers,
			Content: map[string]*huma.MediaType{"application/problem+json": {Schema: schema, Example: problem}},
		}
	}
	return all
}

// Codes that several operations share.
const (
	onPath    = "path_outside_workspace invalid_path"               // 400
	onRead    = "is_a_directory not_a_directory not_a_regular_file" // 422
	onDisk    = "too_large no_space"                                // 413
	onArchive = "invalid_archive not_a_zip zip_damaged zip_expands zip_too_many_files zip_unsafe_name zip_not_regular zip_name_twice zip_cannot_unpack"
	onPackage = "invalid_skill invalid_skill_archive"
)

// refusals are the codes of an operation besides those that follow from how it is
// called (see refusalsOf); docs/errors.md says what they mean.
var refusals = map[string]map[int]string{
	"create-session": {403: "biz_role_not_allowed", 422: "unknown_model solution_not_found"},

	"send-chat": {
		409: "session_busy", 422: "unknown_model invalid_answer invalid_schema",
	},
	"read-attachment":        {404: "object_not_found"},
	"read-shared-attachment": {403: "sharing_disabled", 404: "share_not_found object_not_found", 410: "share_gone", 503: "dependency_unavailable"},
	"read-shared-session":    {403: "sharing_disabled", 404: "share_not_found", 410: "share_gone", 503: "dependency_unavailable"},
	"create-share-link":      {403: "sharing_disabled"},
	"revoke-share-link":      {404: "share_not_found"},

	"compact-session":   {404: "compaction_not_found", 409: "session_busy"},
	"compare-branches":  {404: "branch_not_found"},
	"checkout":          {404: "checkpoint_not_found snapshot_not_found", 422: "invalid_snapshot snapshot_damaged"},
	"rewind":            {404: "checkpoint_not_found", 409: "session_busy", 413: "too_many_files no_space", 503: "history_not_changed snapshot_failed"},
	"switch-branch":     {404: "checkpoint_not_found", 409: "session_busy", 413: "too_many_files no_space", 503: "history_not_changed snapshot_failed"},
	"get-context-stats": {422: "unknown_model"},
	"tokenize-messages": {422: "unknown_model"},
	"tokenize-prompt":   {422: "unknown_model"},

	"list-files":         {400: onPath, 403: "file_permission_denied", 404: "file_not_found", 422: onRead},
	"read-file":          {400: onPath, 403: "file_permission_denied", 404: "file_not_found", 416: codeRange, 422: onRead},
	"write-file":         {400: onPath, 403: "file_permission_denied", 404: "file_not_found", 409: "stale_file file_exists", 413: onDisk, 422: onRead},
	"delete-file":        {400: onPath, 403: "file_permission_denied", 404: "file_not_found", 409: "stale_file", 422: onRead},
	"rename-file":        {400: onPath, 403: "file_permission_denied", 404: "file_not_found", 409: "file_exists", 413: onDisk, 422: onRead + " invalid_path"},
	"copy-file":          {400: onPath, 403: "file_permission_denied", 404: "file_not_found", 409: "file_exists directory_not_empty", 413: onDisk, 422: onRead + " invalid_path"},
	"share-file":         {400: onPath, 403: "file_permission_denied", 404: "file_not_found", 409: "file_exists", 413: onDisk, 422: onRead},
	"upload-files":       {400: onPath, 403: "file_permission_denied", 404: "file_not_found", 413: onDisk, 422: onRead},
	"download-directory": {400: onPath, 403: "file_permission_denied", 404: "file_not_found", 422: onRead},

	"get-background-task-output": {404: "task_not_found"},
	"stop-background-task":       {404: "task_not_found"},

	"get-skill":     {404: "skill_not_found", 422: onPackage},
	"search-skills": {503: "registry_not_configured"},
	"install-skill": {404: "skill_not_found skill_not_released skill_version_not_found", 409: "digest_mismatch", 413: "invalid_skill_archive no_space zip_too_large", 422: onPackage + " " + onArchive, 503: "registry_not_configured"},
	"upload-skill":  {413: onDisk, 422: onPackage},

	"create-mcp-server": {403: "administrator_required forbidden", 409: "mcp_server_name_taken too_many_mcp_servers", 404: "session_not_found"},
	"get-mcp-server":    {404: "mcp_server_not_found"},
	"change-mcp-server": {403: "administrator_required forbidden", 404: "mcp_server_not_found", 409: "mcp_server_name_taken"},
	"delete-mcp-server": {403: "administrator_required forbidden", 404: "mcp_server_not_found"},

	"get-memory":     {404: "memory_not_found"},
	"update-memory":  {404: "memory_not_found"},
	"disable-memory": {404: "memory_not_found"},
	"delete-memory":  {404: "memory_not_found"},

	"list-biz-roles":        {403: "administrator_required", 404: "solution_not_found"},
	"get-solution-file":     {404: "solution_not_found file_not_found", 413: "file_too_large"},
	"get-allowed-biz-roles": {404: "solution_not_found user_not_found"},
	"set-allowed-biz-roles": {404: "solution_not_found user_not_found"},

	"start-replay":  {409: "replay_unsupported session_busy"},
	"change-replay": {404: "replay_not_found", 409: "replay_over session_busy", 422: "replay_damaged"},

	"preview-import": {413: "zip_too_large no_space", 422: onArchive},
	"import-session": {409: "import_lost", 413: "zip_too_large no_space too_many_files", 422: onArchive + " solution_not_found"},
	"export-session": {413: "no_space"},

	"upset-extra-info":       {413: "extra_info_too_large"},
	"get-extra-info-by-task": {404: "session_not_found"},

	"publish-app":   {400: onPath, 403: "forbidden file_permission_denied", 404: "session_not_found file_not_found", 413: "app_too_large no_space", 422: "no_index_page " + onRead},
	"get-app":       {404: "app_not_found"},
	"unpublish-app": {404: "app_not_found"},
	"read-app":      {404: "app_not_found file_not_found", 416: codeRange, 503: "dependency_unavailable"},

	"list-registry-resources":     {503: "registry_not_configured"},
	"get-registry-resource":       {404: "resource_not_found", 503: "registry_not_configured"},
	"list-registry-organizations": {503: "registry_not_configured"},
	"list-registry-templates":     {503: "registry_not_configured"},
	"get-registry-template":       {404: "template_not_found", 503: "registry_not_configured"},
	"list-registry-scenarios":     {503: "registry_not_configured"},
	"get-skill-store-stats":       {503: "registry_not_configured"},

	"get-env-bucket":      {404: "env_bucket_not_found"},
	"delete-env-bucket":   {404: "env_bucket_not_found"},
	"run-diagnostic":      {404: "check_not_found"},
	"reset-compute-env":   {409: "compute_env_busy"},
	"upgrade-compute-env": {409: "compute_env_busy"},
	"set-profile":         {413: "profile_too_large"},

	"get-api-key":    {404: "api_key_not_found"},
	"rename-api-key": {404: "api_key_not_found"},
	"delete-api-key": {404: "api_key_not_found"},

	"create-user":          {409: "username_taken"},
	"delete-user":          {404: "user_not_found", 409: "last_administrator"},
	"grant-administrator":  {404: "user_not_found"},
	"revoke-administrator": {404: "user_not_found", 409: "last_administrator"},
	"cancel-run":           {404: "run_not_found"},
	"force-fail-run":       {404: "run_not_found"},

	"get-readiness": {503: "dependency_unavailable"},
}
