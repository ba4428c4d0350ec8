package domain

// ChatTemplate is what a model's chat template adds to the texts of a
// conversation, in tokens: the marks that say who speaks, where a message ends
// and where the answer begins.
type ChatTemplate struct {
	Name       string // of the family, as chatml; generic where it is not known
	Known      bool   // the model's own; else what most templates come to
	PerPrompt  int    // once, at the beginning
	PerMessage int    // the role included
	PerName    int    // for a message with a name, besides the name itself
	Answer     int    // the beginning of the answer
	NoThinking string // what is written before the answer to turn thinking off
}
