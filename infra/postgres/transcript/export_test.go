package transcript

// ContextStatements are those by which a model call's history is read.
func ContextStatements() map[string]string {
	return map[string]string{"transcript": transcriptRows}
}
