package api

import "github.com/danielgtaylor/huma/v2"

// words say what a parameter means, with an example.
type words struct {
	about   string
	example any
}

// wordsOf finds the words of a parameter: those of the operation, else those of
// its area, else those that its name has everywhere.
func wordsOf(op *huma.Operation, name string) words {
	for _, key := range []string{op.OperationID + " " + name, op.Tags[0] + " " + name} {
		if found, ok := parameterWords[key]; ok {
			return found
		}
	}
	return parameterWords[name]
}

// unparsedHeaders are request headers that handlers read by themselves.
var unparsedHeaders = map[string][]string{
	"read-file": {"Range", "If-Range", "If-None-Match"},
	"read-app":  {"Range", "If-Range", "If-None-Match"},
	"send-chat": {"Accept"},
}

// exampleSession is the session of the examples.
const exampleSession = "01a1fd9b-4f0b-74a3-bdbc-594f816ae116"

// parameterWords are by name, or by operation or area and name where a name means
// something of its own. What is said beside a parameter's type counts first.
var parameterWords = map[string]words{
	"session_id":                          {"The session.", exampleSession},
	"Tool servers session_id":             {"Only servers of this session.", exampleSession},
	"list-runs session_id":                {"Only runs of this session.", exampleSession},
	"list-session-mcp-servers session_id": {"The session.", exampleSession},

	"limit":  {"How many at most.", 20},
	"offset": {"How many to leave out from the beginning.", 0},
	"q":      {"", "release notes"},

	"template_id_prefix": {"", "report-"},
	"after_sequence":     {"", 41},
	"after_seq":          {"", 118},
	"Last-Event-ID":      {"", "118"},
	"attachment":         {"", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},

	"base":  {"", "01a1fd9b-4f0b-74a9-8a1e-0a3f5e8b9c10"},
	"other": {"", "01a1fd9c-1d20-7b11-9d40-6f0c7a2e4b55"},

	"file_path":                   {"Relative to the solution; slashes are part of it.", "notes/today.md"},
	"get-solution-file file_path": {"Relative to the solution; slashes are part of it.", "layout.json"},
	"dir_path":                    {"", "notes"},
	"read-app dir_path":           {"", "css/style.css"},
	"If-Match":                    {"", `"5d41402abc4b2a76"`},
	"If-None-Match":               {"", "*"},
	"read-file If-None-Match":     {"What the client has: if it is still that, the answer is 304.", `"5d41402abc4b2a76"`},
	"read-app If-None-Match":      {"What the client has: if it is still that, the answer is 304.", `"5d41402abc4b2a76"`},
	"Range":                       {"One range of bytes.", "bytes=0-1023"},
	"If-Range":                    {"The Range counts only while the file is this version.", `"5d41402abc4b2a76"`},
	"download":                    {"", true},
	"app_id":                      {"The published app.", "k3v9q2m7x1c8b5n4"},

	"task_id":                        {"The background task.", "bg_01a1fd9d-6697-73e2-8b37-3d7b3bf3476a"},
	"get-extra-info-by-task task_id": {"What extra.task_id is.", "ticket-4711"},
	"tail":                           {"", 100},

	"skill_id":           {"", "code-review"},
	"API keys id":        {"The API key.", "01a1fd9b-6159-7ab7-9ea9-e318ff1b1543"},
	"Tool servers id":    {"The tool server.", "01a1fd9e-08c4-7d0a-a3b5-2f9c4d1e6a77"},
	"Memories id":        {"The memory.", 17},
	"Registry id":        {"The resource.", "agent-template.basic"},
	"Tool servers scope": {"Only servers of this scope.", "session"},

	"keyword":         {"", "deploy"},
	"skill_name":      {"Only memories that belong to this skill.", "code-review"},
	"Memories type":   {"Only memories of this type.", "feedback"},
	"record_type":     {"Only records of this type.", "memory"},
	"Memories scope":  {"Only memories with this scope.", "project-x"},
	"owner":           {"Only memories with this owner.", "team-a"},
	"topic":           {"Only memories about this topic.", "style"},
	"Memories status": {"Only memories in this state.", "active"},

	"solution_id":              {"The solution.", "general"},
	"Tool servers solution_id": {"Only servers of this solution.", "general"},
	"user_id":                  {"The user.", "01a1fd9a-e0d1-7c52-b4f3-7a1d0c9e8b21"},

	"token": {"The token of the link.", "b8c59d5d8ba7e47309a652665cb66ca3"},

	"Registry type":                 {"Only resources of this type.", "agent"},
	"subtype":                       {"Only resources of this subtype.", "basic"},
	"get-registry-template subtype": {"The subtype of the form.", "basic"},
	"type_key":                      {"The type of the form.", "agent"},
	"driver":                        {"", "http"},

	"bucket": {"The bucket.", "default"},
	"check":  {"The check; run-diagnostics lists all.", "postgres"},
	"Accept": {"text/event-stream: the answer is a stream of server-sent events.", "application/json"},
	"key":    {"The preference: any name of the front end's choice.", "theme"},

	"actor_id":         {"Only what this user did.", "01a1fd9a-e0d1-7c52-b4f3-7a1d0c9e8b21"},
	"action":           {"Only records of this action.", "session.read"},
	"target":           {"Only records about this.", exampleSession},
	"list-runs status": {"Only runs in this state.", "running"},
	"kind":             {"Only runs of this kind.", "chat"},
	"owner_id":         {"Only runs of this user's sessions.", "01a1fd9a-e0d1-7c52-b4f3-7a1d0c9e8b21"},
	"page":             {"", "bmV4dA"},
	"workflow_id":      {"", "session/" + exampleSession},
}
