package domain

// ChatTemplate is the overhead of a model's chat template, in tokens: the marks for roles, ends
// of messages and the start of the answer.
type ChatTemplate struct {
	Name       string // of the family, such as chatml; generic if unknown
	Known      bool   // false: typical values of chat templates, not the model's own
	PerPrompt  int    // once, at the beginning
	PerMessage int    // the role included
	PerName    int    // for a message with a name, in addition to the name itself
	Answer     int    // the beginning of the answer
	NoThinking string // text written before the answer to turn thinking off
}
