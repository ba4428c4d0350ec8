package temporal

import (
	"strings"

	"everloop/internal/durable"
)

// purposes are what the workflows of a kind are for.
var purposes = map[string]string{
	"chat":       "Carries the chats of a session one after the other",
	"task":       "Carries background work that outlives the chat which started it",
	"compaction": "Summarises the history of a session",
	"replay":     "Plays a recorded session",
	"deletion":   "Removes the files, objects, events and rows of a deleted session",
	"history":    "Moves a session to another point of its history",
	"import":     "Creates a session from an archive",
	"archive":    "Moves the events of finished chats into the object store",
	kindSchedule: "Sends the message of a scheduled task, and waits until its chat has ended",
	kindDAG:      "Decides which nodes of a DAG run; their work is in its children",
	kindIssue:    "Sends an issue to an agent, and waits until its chat has ended",
}

// Details returns the static details of a workflow for operators, as Markdown: what it is for, its
// ids, and links to the desktop. It contains no text of users.
func (r Runs) Details(a durable.Attributes) string {
	lines := []string{purposes[a.Kind] + ".", ""}

	if a.SessionID != "" {
		lines = append(lines, "- Session: "+r.link(a.SessionID, "/s/"+a.SessionID))
	}

	if task, is := strings.CutPrefix(a.ParentRun, durable.TaskParent("")); is {
		lines = append(lines, "- Scheduled task: "+r.link(task, "/schedules/"+task))
	} else if path, is := strings.CutPrefix(a.ParentRun, "dag/"); is {
		solution, run, _ := strings.Cut(path, "/")
		lines = append(lines, "- DAG run: "+r.link(run, "/dags/"+solution+"/runs/"+run))
	} else if issue, is := strings.CutPrefix(a.ParentRun, durable.IssueParent("")); is {
		lines = append(lines, "- Issue: "+issue)
	}

	if a.OwnerID != "" {
		lines = append(lines, "- Owner: "+a.OwnerID)
	}

	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// link returns a link to a page of the desktop, or the text where the desktop has no address.
func (r Runs) link(text, path string) string {
	if r.Desktop == "" {
		return "`" + text + "`"
	}

	return "[" + text + "](" + strings.TrimRight(r.Desktop, "/") + path + ")"
}
