package api_test

// notWalked are operations that have tests of their own and no place in the walk
// yet. The list may only shrink.
var notWalked = []string{
	"DELETE /api/sessions/{session_id}/share/{token}",
	"GET /api/sessions/extra_info/by_task/{task_id}",
	"GET /api/sessions/{session_id}/checkpoints",
	"GET /api/sessions/{session_id}/compare",
	"GET /api/sessions/{session_id}/context-stats",
	"GET /api/sessions/{session_id}/export",
	"GET /api/sessions/{session_id}/extra_info",
	"GET /api/sessions/{session_id}/history",
	"GET /api/sessions/{session_id}/replay/preview",
	"GET /api/share/{token}",
	"GET /api/share/{token}/attachments/{attachment}",
	"PATCH /api/sessions/{session_id}/replay",
	"POST /api/sessions/import",
	"POST /api/sessions/preview-import",
	"POST /api/sessions/tokenize/messages",
	"POST /api/sessions/tokenize/prompt",
	"POST /api/sessions/{session_id}/checkout",
	"POST /api/sessions/{session_id}/compact",
	"POST /api/sessions/{session_id}/replay",
	"POST /api/sessions/{session_id}/rewind",
	"POST /api/sessions/{session_id}/share",
	"POST /api/sessions/{session_id}/switch-branch",
	"POST /api/sessions/{session_id}/upset_extra_info",
}
