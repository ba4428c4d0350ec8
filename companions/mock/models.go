package mock

import "net/http"

// modelInfo is an entry of the model list, as a chat-completions server lists it.
type modelInfo struct {
	ID            string   `json:"id"`
	Object        string   `json:"object"`
	Created       int64    `json:"created"`
	OwnedBy       string   `json:"owned_by"`
	Name          string   `json:"name"`
	ContextWindow int      `json:"context_window"`
	Modalities    []string `json:"modalities"`
}

func info(id, name string, window int) modelInfo {
	return modelInfo{
		ID: id, Object: "model", Created: 1_767_225_600, OwnedBy: "everloop-mock",
		Name: name, ContextWindow: window, Modalities: []string{"text", "image"},
	}
}

// modelList begins with the demonstration: clients take the first as default.
var modelList = []modelInfo{
	info(DemoModel, "Everloop demo (scripted, not a real model)", 128_000),
	info(EchoModel, "Everloop demo: echo (answers with the request it received)", 128_000),
	info(SmallModel, "Everloop demo: small context (scripted, 8,000 tokens)", 8_000),
	speechModel(),
}

func speechModel() modelInfo {
	m := info(SpeechModel, "Everloop demo: speech (scripted transcripts)", 4_000)
	m.Modalities = []string{"audio"}

	return m
}

func findModel(id string) (modelInfo, *apiError) {
	for _, m := range modelList {
		if m.ID == id {
			return m, nil
		}
	}

	return modelInfo{}, notFound("model_not_found", "The model `"+id+"` does not exist; this mock service has `"+DemoModel+"`.")
}

func serveModels(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": modelList})
}

func serveModel(w http.ResponseWriter, r *http.Request) {
	m, fault := findModel(r.PathValue("id"))
	if fault != nil {
		writeError(w, fault)
		return
	}

	writeJSON(w, http.StatusOK, m)
}
