package api

import "github.com/danielgtaylor/huma/v2"

// introduction opens the document.
const introduction = `Durable agent sessions over REST.

A session holds a conversation, a workspace of files and the work of an agent; what a request was promised is kept, whatever crashes. Ids are opaque strings that sort by creation. Times are ISO 8601 in UTC. Unknown fields and parameters of a request are ignored, and answers may gain fields. Somebody else's session is answered as if it did not exist, unless it is shared.

Every refusal has one shape, application/problem+json (RFC 9457): code says what is wrong for programs, and retryable whether the same request may succeed later. Each operation lists its codes by status in x-error-codes.`

// tags are the areas of the document, in the order in which they are read.
var tags = []*huma.Tag{
	{Name: "Sessions", Description: "Conversations with an agent: made, listed, set up, shared, deleted."},
	{Name: "Chat", Description: "Messages to the agent, answers to its questions, and the events of its work."},
	{Name: "Messages", Description: "Pictures of messages."},
	{Name: "History", Description: "Checkpoints, branches, going back, summaries and the size of the context."},
	{Name: "Files", Description: "The workspace of a session. Paths are relative to it; one that leaves it, also through a link, is refused."},
	{Name: "Background tasks", Description: "Commands that outlive their chat."},
	{Name: "Skills", Description: "Packages of instructions that the agent loads when they are needed."},
	{Name: "Tool servers", Description: "Servers of the Model Context Protocol, whose tools the agent may call."},
	{Name: "Memories", Description: "What one session tells the next."},
	{Name: "Solutions", Description: "Ways of working that sessions are made with, and their roles."},
	{Name: "Sharing", Description: "Public, read-only links to sessions."},
	{Name: "Replay", Description: "A session played again as it was recorded, and taken over."},
	{Name: "Import and export", Description: "Sessions as ZIP archives."},
	{Name: "Extra info", Description: "What clients keep with a session."},
	{Name: "Apps", Description: "Directories of workspaces, published as sites."},
	{Name: "Tokenization", Description: "Counting tokens."},
	{Name: "Registry", Description: "What the skill registry of this installation holds. Without one, each answer is registry_not_configured."},
	{Name: "Environment", Description: "Variables of the tools, where commands run, and whether everything that the service needs is well."},
	{Name: "User", Description: "What a front end keeps for the caller."},
	{Name: "API keys", Description: "The caller's keys. A key that is restricted to scopes cannot manage keys."},
	{Name: "Authentication", Description: "Who is calling."},
	{Name: "Administration", Description: "For administrators: users, roles, the audit trail and the runs of the workflow engine."},
	{Name: "Service", Description: "Version, health, configuration, metrics and this document."},
}

// descriptions say of operations what their summary does not.
var descriptions = map[string]string{
	"create-session":     "Everything in the body is optional, and so is the body. Without an intent the first message says what the session is for.",
	"list-sessions":      "The search is literal and in any case, in intents and in the text of all messages; that of a turn counts when it has ended.",
	"get-session":        "The owner, administrators (which is audited) and, of a shared session, every user may read it. The environment is not told.",
	"update-session":     "Of session_setup, what is named replaces what was said before.",
	"delete-session":     "Its chat and its background tasks are stopped, its files, links and published apps are removed.",
	"set-session-env":    "At most 500 variables and 100,000 bytes. They reach the tools of the session and nothing else, and are told only in this answer.",
	"share-session":      "Every signed-in user may then read the session; nobody else may change it.",
	"set-session-budget": "What is left out stays; null lifts a bound. A chat that reaches a bound ends with budget_exhausted.",
	"list-inbox":         "A question waits until it is answered with POST /api/sessions/{session_id}/chat, or its chat is stopped.",
	"list-session-tasks": "The list that the agent keeps with its tool TaskCreate.",
	"list-messages":      "Streamed, so that a history of any length works. A list that was broken off is no valid JSON.",

	"send-chat":     "202 means that the message is kept, whatever crashes. The same client_message_id, or Idempotency-Key, is the same message.",
	"stop-chat":     "The running chat ends as interrupted, with what it has said so far. Queued messages stay, unless scope is chat_and_queue.",
	"stream-events": "Each event has its sequence number as id; a client that reconnects with Last-Event-ID misses nothing. The stream has no end of its own; one that the service ends says why as session:error or session:resync.",

	"list-checkpoints":  "Each user turn and each step that changed files makes one.",
	"compare-branches":  "What turns and files of two branches differ, from where they part, and what each side used.",
	"checkout":          "The turns and the files as they were; nothing is changed.",
	"rewind":            "What is taken back stays on the branch that was left: switching to pre_rewind_checkpoint_id brings it back. The session has to be idle.",
	"switch-branch":     "The session has to be idle. Files become what they were at that end.",
	"compact-session":   "Waits for the result, at most ten minutes; a client that leaves finds it in the messages.",
	"get-context-stats": "What the prompt, tools, skills, memories and messages take of the model's context window.",

	"list-files":         "Of the workspace; without a directory its root.",
	"read-file":          "Of several ranges at once the whole file is given. HTML and XML come with a Content-Security-Policy that keeps them from the service's cookies.",
	"write-file":         "With If-Match only over the version that it names, with If-None-Match: * only where there is no file.",
	"delete-file":        "A link is removed by itself, not what it leads to.",
	"upload-files":       "Each file is placed or fails by itself; failed says which and why. Files may come as slowly as the client sends.",
	"download-directory": "Packed while it is sent: a download that is broken off has no end, and is no valid archive.",
	"share-file":         "The link is a symbolic link in the workspace.",
	"rename-file":        "A name that is taken is file_exists.",

	"get-background-task-output": "markers says of each line whether it was written to stdout or stderr.",
	"stop-background-task":       "Its processes are asked to end, and are killed when they do not.",

	"create-mcp-server":        "For one session, for one solution, or, by administrators, for the whole service. Values of env and headers are encrypted at rest and never told again. A stdio server runs in the sandbox of the session.",
	"change-mcp-server":        "What is left out stays. A masked value (********) that is sent back stays what it is.",
	"list-session-mcp-servers": "The owner's look connects the session with its servers and waits a moment for them.",
	"list-mcp-servers":         "How a server of the service is reached is told to administrators only.",

	"create-memory":   "Agents of the caller's sessions read it where memory_enabled is set.",
	"update-memory":   "What is left out stays; null empties a field.",
	"change-memories": "Ids that are not the caller's are passed over; count says how many were his.",

	"upload-skill":  "The name has to be the one of the front matter of SKILL.md. A package of that name is replaced.",
	"install-skill": "Downloaded, checked against its digest and unpacked below .skills of the workspace.",
	"resync-skills": "After files were changed by hand.",
	"search-skills": "Words are looked for in names and descriptions.",

	"list-biz-roles":        "The caller's, or, for administrators, another user's.",
	"set-allowed-biz-roles": "An empty list allows none.",

	"create-share-link":   "The link is the key: whoever has it can read the turns without credentials. It lives seven days unless ttl_seconds says otherwise, and is told in this answer only.",
	"read-shared-session": "Without what the link leaves out, values of the environment and known shapes of credentials.",
	"revoke-share-link":   "Who opens the link from now on is answered share_gone.",

	"start-replay":   "Anybody who may read the session may replay it. The new session follows the recorded gaps, scaled by speed and capped.",
	"preview-replay": "reason says why a session cannot be replayed.",

	"export-session": "Written while it is sent. Environment values and keys are never in it; memories only for the owner.",
	"import-session": "A form with the archive. Messages, branches, checkpoints and files are as they were, with new ids; what this installation lacks is left out. Environment buckets and rules that allow tool calls are not taken over.",
	"preview-import": "An archive that cannot be imported is 200 with compatible false and the reason in errors.",

	"upset-extra-info":       "Other keys stay; null removes one. All together at most 256 KB.",
	"get-extra-info-by-task": "The newest one, if there are several.",

	"publish-app":   "The files are copied as they are now; publishing the same directory again makes the app show the new ones at the same address. The directory has to hold an index.html.",
	"unpublish-app": "Its address is answered app_not_found at once.",
	"read-app":      "Public. A directory leads to its index.html. Pages are answered as being of no origin: they have neither the cookies of this service nor those of another app.",

	"tokenize-prompt":   "Exact where the tokenizer of the model is known, else an estimate.",
	"tokenize-messages": "With the chat template of the model, tools included.",

	"set-env-bucket":    "Encrypted at rest. The bucket default reaches the tools of all of the caller's sessions, one named as a solution those of that solution, others those that name them in session_setup.env_buckets.",
	"get-env-config":    "Secrets are shown as ***.",
	"run-diagnostics":   "check_started and check_result for each check, then done with the counts.",
	"run-diagnostic":    "As JSON, or with Accept: text/event-stream as the one event check_result.",
	"reset-compute-env": "Workspaces stay as they are.",

	"get-preference": "null when nothing was ever kept under the key.",
	"set-profile":    "Any object of at most 256 KB; schema_version is 1 unless it says otherwise, updated_at is the service's.",

	"create-api-key": "plaintext is told in this answer and never again. A key without scopes may do all that its user may.",
	"delete-api-key": "It ends at once in the process that revoked it, in others within 5 seconds; its connections end within 30 seconds.",
	"list-api-keys":  "Without the keys themselves.",

	"create-user":       "The answer tells the user's first API key, once.",
	"delete-user":       "The account stays, closed, for what names it.",
	"check-token-state": "For each person whether an account would be found by sub or email, or made.",
	"list-audit":        "Administrators' looks into sessions of others, and what they changed.",
	"list-runs":         "Of the workflow engine: chats, sub-agents, background tasks, compactions, replays. Pages go by next_page.",
	"cancel-run":        "A chat is stopped as by its owner, also one that waits for an answer: it ends as interrupted.",
	"force-fail-run":    "For a run that hangs: it is closed at once, and its chat ends as failed with the code run_lost within about 20 seconds. A chat that waits for an answer ends at once, as interrupted.",

	"get-config":    "Switches and addresses for front ends.",
	"list-models":   "default is the model of sessions that name none.",
	"get-readiness": "503 names what is down.",
	"get-health":    "For load balancers; asks nobody.",
	"get-healthz":   "The same as /api/health.",
	"get-version":   "min_sdk is the lowest protocol level that a client must speak.",
	"get-metrics":   "In the text format of Prometheus.",
}

// answerHeaders are what good answers of an operation carry besides X-Request-Id.
var answerHeaders = map[string]map[string]string{
	"write-file":         {"ETag": "Names the version of the file that was written."},
	"read-file":          {"ETag": "Names the version of the file; for If-Match and If-None-Match.", "Content-Range": "With 206: which bytes of how many."},
	"download-directory": {"Content-Disposition": "attachment, with the name of the directory."},
	"export-session":     {"Content-Disposition": "attachment, with a name for the file."},
	"read-app":           {"ETag": "Names the content.", "Content-Range": "With 206: which bytes of how many.", "Location": "With 308: the directory's own address."},
}
