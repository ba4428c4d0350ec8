package api_test

// filesWalk is the operations on files that arrange them; the others are in the
// basic walk.
var filesWalk = []call{
	{
		method:  "POST",
		path:    "/api/sessions/{session_id}/files/{file_path}/rename",
		scope:   "files",
		url:     "/api/sessions/{s}/files/a/b.txt/rename",
		hasBody: true,
		status:  200,
		body:    `{"new_name":"c.txt"}`,
		missing: "/api/sessions/{s}/files/none/rename",
		bad: []bad{
			{body: `{}`, at: "body.new_name"},
			{body: `{"new_name":1}`, at: "body.new_name"},
			{body: `{"new_name":""}`, at: "body.new_name"},
			{body: `{"new_name":"x/y"}`, at: "body.new_name"},
			{body: `{"new_name":"."}`, at: "body.new_name"},
		},
	},
	{
		method:  "POST",
		path:    "/api/sessions/{session_id}/files/{file_path}/copy",
		scope:   "files",
		url:     "/api/sessions/{s}/files/a/b.txt/copy",
		hasBody: true,
		status:  200,
		missing: "/api/sessions/{s}/files/none/copy",
		bad: []bad{
			{body: `{"target_path":1}`, at: "body.target_path"}, {body: `{"overwrite":"yes"}`, at: "body.overwrite"},
		},
	},
	{
		method:  "POST",
		path:    "/api/sessions/{session_id}/share-file",
		scope:   "files",
		url:     "/api/sessions/{s}/share-file",
		hasBody: true,
		status:  200,
		body:    `{"source_path":"a/b.txt"}`,
		missing: "/api/sessions/" + none + "/share-file",
		bad: []bad{
			{body: `{}`, at: "body.source_path"},
			{body: `{"source_path":""}`, at: "body.source_path"},
			{body: `{"source_path":"a","link_name":"x/y"}`, at: "body.link_name"},
			{body: `{"source_path":"."}`, at: "body.link_name"},
			{body: `{"source_path":"a","share_folder":5}`, at: "body.share_folder"},
		},
	},
	// Its form is not a JSON object: see TestUpload.
	{
		method:  "POST",
		path:    "/api/sessions/{session_id}/upload/{dir_path}",
		scope:   "files",
		url:     "/api/sessions/{s}/upload/a",
		stream:  true,
		status:  200,
		missing: "/api/sessions/" + none + "/upload/a",
	},
	{
		method:  "GET",
		path:    "/api/sessions/{session_id}/download-dir/{dir_path}",
		scope:   "files",
		url:     "/api/sessions/{s}/download-dir/a",
		status:  200,
		missing: "/api/sessions/{s}/download-dir/none",
	},
}
