package mock

import (
	"net/http"

	"everloop/companions/edge"
)

// Model ids.
const (
	DemoModel   = "everloop-demo"
	EchoModel   = "everloop-demo-echo"
	SmallModel  = "everloop-demo-small"
	SpeechModel = "everloop-demo-speech"
)

// modelInfo is an entry of the model list.
type modelInfo struct {
	ID            string   `json:"id"`
	Object        string   `json:"object"`
	Created       int64    `json:"created"`
	OwnedBy       string   `json:"owned_by"`
	Name          string   `json:"name"`
	ContextWindow int      `json:"context_window"`
	Modalities    []string `json:"modalities"`
}

// modelList starts with the demonstration, because clients use the first model by default.
var modelList = []modelInfo{
	newModel(DemoModel, "Everloop demo (scripted, not a real model)", 128_000, "text", "image"),
	newModel(EchoModel, "Everloop demo: echo (answers with the request it received)", 128_000, "text", "image"),
	newModel(SmallModel, "Everloop demo: small context (scripted, 8,000 tokens)", 8_000, "text", "image"),
	newModel(SpeechModel, "Everloop demo: speech (scripted transcripts)", 4_000, "audio"),
}

func newModel(id, name string, window int, modalities ...string) modelInfo {
	return modelInfo{
		ID: id, Object: "model", Created: 1_767_225_600, OwnedBy: "everloop-mock",
		Name: name, ContextWindow: window, Modalities: modalities,
	}
}

func findModel(id string) (modelInfo, *apiError) {
	for _, m := range modelList {
		if m.ID == id {
			return m, nil
		}
	}
	return modelInfo{}, invalid(http.StatusNotFound, "model_not_found",
		"The model `"+id+"` does not exist; this mock service has `"+DemoModel+"`.")
}

func serveModels(w http.ResponseWriter, _ *http.Request) {
	edge.WriteJSON(w, http.StatusOK, map[string]any{"object": "list", "data": modelList})
}

func serveModel(w http.ResponseWriter, r *http.Request) {
	m, fault := findModel(r.PathValue("id"))
	if fault != nil {
		writeError(w, fault)
		return
	}
	edge.WriteJSON(w, http.StatusOK, m)
}
