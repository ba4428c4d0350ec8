package tokens

import (
	"strings"

	"everloop/domain"
)

// emptyThinking is what templates of thinking models write to turn thinking off.
const emptyThinking = "<think>\n\n</think>\n\n"

// generic is what most templates come to.
var generic = domain.ChatTemplate{Name: "generic", PerMessage: 4, Answer: 3, NoThinking: emptyThinking}

// templates are the families of chat templates whose marks are published, by the
// beginning of the model's name. Each mark is one token of its vocabulary, and so
// is the name of each of the usual roles. The first that fits counts.
var templates = []struct {
	prefixes []string
	template domain.ChatTemplate
}{
	// <|start|>role<|message|>text<|end|>, with its own system message.
	{[]string{"gpt-oss"}, domain.ChatTemplate{Name: "harmony", PerMessage: 4, PerName: 1, Answer: 2}},
	// What OpenAI has published for counting: three for each message and its role,
	// one for a name, three for the answer.
	{[]string{"gpt-", "chatgpt-", "o1", "o3", "o4"}, domain.ChatTemplate{Name: "openai", PerMessage: 4, PerName: 1, Answer: 3}},
	// <|im_start|>role\ntext<|im_end|>\n
	{
		[]string{"qwen", "qwq", "hermes", "yi-", "smollm"},
		domain.ChatTemplate{Name: "chatml", PerMessage: 5, Answer: 3, NoThinking: emptyThinking},
	},
	// <|begin_of_text|>, then <|start_header_id|>role<|end_header_id|>\n\ntext<|eot_id|>
	{[]string{"llama-3", "llama3", "meta-llama-3"}, domain.ChatTemplate{Name: "llama3", PerPrompt: 1, PerMessage: 5, Answer: 4}},
	// <bos>, then <start_of_turn>role\ntext<end_of_turn>\n
	{[]string{"gemma"}, domain.ChatTemplate{Name: "gemma", PerPrompt: 1, PerMessage: 5, Answer: 3}},
	// <｜start▁of▁sentence｜>, then <｜User｜>text, or <｜Assistant｜>text<｜end▁of▁sentence｜>
	{[]string{"deepseek"}, domain.ChatTemplate{Name: "deepseek", PerPrompt: 1, PerMessage: 2, Answer: 2, NoThinking: "</think>"}},
	// <s>, then [INST]text[/INST], or text</s>
	{
		[]string{"mistral", "mixtral", "ministral", "codestral", "devstral"},
		domain.ChatTemplate{Name: "mistral", PerPrompt: 1, PerMessage: 2},
	},
}

// Template returns the chat template of a model, by its name.
func (c *Counter) Template(model string) domain.ChatTemplate {
	name := strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])

	for _, t := range templates {
		for _, prefix := range t.prefixes {
			if strings.HasPrefix(name, prefix) {
				t.template.Known = true
				return t.template
			}
		}
	}

	return generic
}
