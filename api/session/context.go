package session

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"

	"everloop/api/access"
	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/api/sessiondetail"
	"everloop/auth"
	"everloop/domain"
	"everloop/infra/tokens"
)

// Compactor summarises histories. The caller owns the session.
type Compactor interface {
	// Request makes the wish durable and starts the work.
	Request(ctx context.Context, caller domain.Caller, sessionID domain.SessionID) (compactionID string, err error)
	// Await waits for the result; when ctx ends before, it is that it still runs.
	Await(ctx context.Context, caller domain.Caller, compactionID string) (domain.CompactionResult, error)
}

// Bounds of what is tokenized.
const (
	maxTokenIDs    = 10_000
	maxTokenized   = 10_000 // messages, or tools
	compactionTime = 10 * time.Minute
	imageTokens    = 1000 // a picture's, which only its model server knows
)

// ContextAPI counts and compacts what the model sees.
type ContextAPI struct {
	access.Sessions
	Compactor Compactor
	// ContextStats describes the prompt of a session's next model call.
	ContextStats func(ctx context.Context, session domain.Session) (domain.ContextStats, error)
	// CountCompactions counts the summaries that a branch shows.
	CountCompactions func(ctx context.Context, branchID domain.BranchID) (int, error)
	Tokens           *tokens.Counter
	Models           sessiondetail.Models
}

// Register adds the operations of the area to the interface.
func (a *ContextAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "compact-session", Method: fiber.MethodPost, Path: "/api/sessions/{session_id}/compact", Tag: "History",
		Summary:     "Summarise the older part of the history",
		Description: "Waits for the result for at most ten minutes; a client that disconnects finds it in the messages.",
		Scope:       auth.Chat, Stream: true,
		Errors: httpx.Codes{404: "compaction_not_found", 409: "session_busy"},
	}, a.compact)
	httpx.Register(r, httpx.Operation{
		ID: "get-context-stats", Method: fiber.MethodGet, Path: "/api/sessions/{session_id}/context-stats", Tag: "History",
		Summary:     "Get the token usage of the next prompt",
		Description: "Returns what the prompt, tools, skills, memories and messages use of the model's context window.",
		Scope:       auth.SessionsRead,
		Errors:      httpx.Codes{422: "unknown_model"},
	}, a.contextStats)
	httpx.Register(r, httpx.Operation{
		ID: "tokenize-prompt", Method: fiber.MethodPost, Path: "/api/sessions/tokenize/prompt", Tag: "Tokenization",
		Summary:     "Count the tokens of a text",
		Description: "Exact if the tokenizer of the model is known, otherwise an estimate.",
		Scope:       auth.SessionsRead, Repeats: true,
		Errors:  httpx.Codes{422: "unknown_model"},
		Example: `{"prompt": "Write the release notes.", "model": "gpt-4o"}`,
	}, a.tokenizePrompt)
	httpx.Register(r, httpx.Operation{
		ID: "tokenize-messages", Method: fiber.MethodPost, Path: "/api/sessions/tokenize/messages", Tag: "Tokenization",
		Summary:     "Count the tokens of a conversation",
		Description: "Includes the chat template of the model and the tools.",
		Scope:       auth.SessionsRead, Repeats: true,
		Errors:  httpx.Codes{422: "unknown_model"},
		Example: `{"messages": [{"role": "user", "content": "Write the release notes."}]}`,
	}, a.tokenizeMessages)
}

// compact waits for the result; a client that cannot wait so long finds it in
// the messages.
func (a *ContextAPI) compact(ctx context.Context, in *access.SessionRef) (*httpx.Body[domain.CompactionResult], error) {
	caller := httpx.CallerOf(ctx)
	if _, err := a.Store.OwnSession(ctx, caller.User, in.SessionID); err != nil {
		return nil, err
	}

	ctx, cancel := context.WithTimeout(ctx, compactionTime)
	defer cancel()

	id, err := a.Compactor.Request(ctx, caller, in.SessionID)
	if err != nil {
		return nil, err
	}

	return httpx.Answer(a.Compactor.Await(ctx, caller, id))
}

func (a *ContextAPI) contextStats(ctx context.Context, in *access.SessionRef) (*httpx.Body[domain.ContextStats], error) {
	session, _, err := a.Readable(ctx, in.SessionID)
	if err != nil {
		return nil, err
	}

	stats, err := a.ContextStats(ctx, session)
	if err != nil {
		return nil, err
	}

	stats.Compactions, err = a.CountCompactions(ctx, session.ActiveBranchID)

	return httpx.Answer(stats, err)
}

type tokenizedPrompt struct {
	Model     string `json:"model" doc:"The model." example:"gpt-4o"`
	Tokenizer string `json:"tokenizer" doc:"The vocabulary, or estimate." example:"o200k_base"`
	Count     int    `json:"count" doc:"Number of tokens." example:"5"`
	Exact     bool   `json:"exact" doc:"false: the count is an estimate."`
	TokenIDs  []uint `json:"token_ids,omitempty" doc:"Of an exact count, the first 10000." example:"[10930, 290, 8232, 12870]"`
	Truncated bool   `json:"truncated" doc:"There are more tokens than token_ids lists."`
}

func (a *ContextAPI) tokenizePrompt(ctx context.Context, in *struct {
	Body struct {
		Prompt string  `json:"prompt" doc:"The text." example:"Write the release notes."`
		Model  *string `json:"model,omitempty" nullable:"true" maxLength:"256" doc:"Without it the default model." example:"gpt-4o"`
	}
},
) (*httpx.Body[tokenizedPrompt], error) {
	model, err := a.tokenizedModel(ctx, in.Body.Model)
	if err != nil {
		return nil, err
	}

	out := tokenizedPrompt{Model: model.ID, Tokenizer: estimate}

	out.Count, out.Exact, out.TokenIDs = a.Tokens.Encode(model.ID, in.Body.Prompt, maxTokenIDs)
	if out.Exact {
		out.Tokenizer, _ = a.Tokens.Tokenizer(model.ID)
		out.Truncated = len(out.TokenIDs) < out.Count
	}

	return httpx.Answer(out, nil)
}

// estimate names what counts where no tokenizer does.
const estimate = "estimate"

// tokenizedModel finds a model that the server has, or whose tokenizer is known.
func (a *ContextAPI) tokenizedModel(ctx context.Context, requested *string) (domain.Model, error) {
	name := fields.Value(requested)

	model, err := a.Models.Resolve(ctx, name)
	if err == nil {
		return model, nil
	}

	if _, exact := a.Tokens.Tokenizer(name); exact {
		return domain.Model{ID: name}, nil
	}

	return model, httpx.At("body.model", err)
}

type tokenizedMessages struct {
	Model            string          `json:"model" doc:"The model." example:"everloop-demo"`
	Tokenizer        string          `json:"tokenizer" doc:"The tokenizer, or estimate." example:"estimate"`
	Count            int             `json:"count" doc:"Number of tokens." example:"9"`
	Exact            bool            `json:"exact" doc:"The model's own tokenizer and chat template counted; false with tools, tool calls or pictures, whose form only the model's server knows."`
	ChatTemplate     string          `json:"chat_template" doc:"The family of the model's chat template; generic where it is not known." example:"generic"`
	TokenIDs         []uint          `json:"token_ids,omitempty" doc:"The tokens, when the count is exact."`
	Truncated        bool            `json:"truncated" doc:"Whether the list is truncated."`
	RenderedChars    int             `json:"rendered_chars" doc:"Characters of all texts, with their roles." example:"28"`
	PerMessage       []messageTokens `json:"per_message" doc:"The tokens of each message."`
	ToolsTokens      int             `json:"tools_tokens" doc:"Tokens of the descriptions of tools." example:"0"`
	TemplateOverhead int             `json:"template_overhead" doc:"Tokens that the chat template adds." example:"7"`
	Fits             bool            `json:"fits" doc:"Whether it fits into the context window."`
	ContextWindow    int64           `json:"context_window" doc:"0: not known." example:"128000"`
}

type messageTokens struct {
	Index  int    `json:"index" doc:"Its index in the request, from 0." example:"0"`
	Role   string `json:"role" doc:"The role: user, assistant, system or tool." example:"user"`
	Tokens int    `json:"tokens" doc:"Number of tokens." example:"2"`
}

type tokenizedMessage struct {
	Role       string `json:"role" minLength:"1" maxLength:"64" doc:"The role: user, assistant, system or tool." example:"user"`
	Content    any    `json:"content,omitempty" doc:"Text, an array of parts {type: text, text} and {type: image_url, image_url}, or null."`
	Name       string `json:"name,omitempty" maxLength:"1000" doc:"Its name."`
	ToolCalls  []any  `json:"tool_calls,omitempty" nullable:"true" maxItems:"1000" doc:"The tool calls."`
	ToolCallID string `json:"tool_call_id,omitempty" maxLength:"1000" doc:"The tool call."`
}

type tokenizeMessagesBody struct {
	Messages            []tokenizedMessage `json:"messages" maxItems:"10000" doc:"The conversation."`
	Model               *string            `json:"model,omitempty" nullable:"true" maxLength:"256" doc:"The model."`
	AddGenerationPrompt *bool              `json:"add_generation_prompt,omitempty" nullable:"true" doc:"Count the beginning of the answer too; true when left out."`
	EnableThinking      *bool              `json:"enable_thinking,omitempty" nullable:"true" doc:"false: count the empty thinking block that templates of thinking models put before the answer."`
	Tools               []any              `json:"tools,omitempty" nullable:"true" maxItems:"10000" doc:"The tools."`
}

func (a *ContextAPI) tokenizeMessages(
	ctx context.Context, in *struct{ Body tokenizeMessagesBody },
) (*httpx.Body[tokenizedMessages], error) {
	model, err := a.tokenizedModel(ctx, in.Body.Model)
	if err != nil {
		return nil, err
	}

	out := tokenizedMessages{
		Model: model.ID, Tokenizer: estimate, ContextWindow: model.ContextWindow, PerMessage: make([]messageTokens, len(in.Body.Messages)),
	}

	rendered, bytes := make([]renderedMessage, len(in.Body.Messages)), 0
	for i, m := range in.Body.Messages {
		if rendered[i], err = renderMessage(i, m); err != nil {
			return nil, err
		}

		bytes += len(rendered[i].text)
	}

	tools, err := renderTools(in.Body.Tools)
	if err != nil {
		return nil, err
	}

	count, template := a.Tokens.Approximate, a.Tokens.Template(model.ID)
	out.ChatTemplate, out.TemplateOverhead = template.Name, template.PerPrompt

	exact := a.Tokens.Exact(model.ID, bytes+len(tools))
	if exact {
		count = a.Tokens.Count
		out.Tokenizer, _ = a.Tokens.Tokenizer(model.ID)
	}

	out.Exact = exact && template.Known && tools == ""

	for i, r := range rendered {
		m := in.Body.Messages[i]
		out.PerMessage[i] = messageTokens{i, m.Role, count(model.ID, r.text) + r.images*imageTokens}
		out.Count += out.PerMessage[i].Tokens
		out.RenderedChars += utf8.RuneCountInString(r.text) + len(m.Role)
		out.Exact = out.Exact && r.images == 0 && len(m.ToolCalls) == 0 && m.ToolCallID == ""

		out.TemplateOverhead += template.PerMessage
		if m.Name != "" {
			out.TemplateOverhead += template.PerName
		}
	}

	out.ToolsTokens = count(model.ID, tools)

	out.RenderedChars += utf8.RuneCountInString(tools)
	if in.Body.AddGenerationPrompt == nil || *in.Body.AddGenerationPrompt {
		out.TemplateOverhead += template.Answer
	}

	if in.Body.EnableThinking != nil && !*in.Body.EnableThinking && template.NoThinking != "" {
		out.TemplateOverhead += count(model.ID, template.NoThinking)
	}

	out.Count += out.ToolsTokens + out.TemplateOverhead
	out.Fits = model.ContextWindow == 0 || int64(out.Count) <= model.ContextWindow

	return httpx.Answer(out, nil)
}

// renderedMessage is a message as a chat template would write it.
type renderedMessage struct {
	text   string
	images int
}

func renderMessage(index int, m tokenizedMessage) (renderedMessage, error) {
	at := func(field string) string { return fmt.Sprintf("body.messages[%d].%s", index, field) }

	var (
		out  renderedMessage
		text strings.Builder
	)

	switch content := m.Content.(type) {
	case nil:
	case string:
		text.WriteString(content)
	case []any:
		for i, part := range content {
			piece, image, ok := renderPart(part)
			if !ok {
				return out, domain.Invalidf(fmt.Sprintf("%s[%d]", at("content"), i), "must be a part with a text or an image_url")
			}

			text.WriteString(piece)

			if image {
				out.images++
			}
		}
	default:
		return out, domain.Invalidf(at("content"), "must be a text, an array of parts or null")
	}

	for i, call := range m.ToolCalls {
		if _, object := call.(map[string]any); !object {
			return out, domain.Invalidf(fmt.Sprintf("%s[%d]", at("tool_calls"), i), "must be an object")
		}

		raw, err := json.Marshal(call)
		if err != nil {
			return out, domain.Invalidf(at("tool_calls"), "cannot be read")
		}

		text.Write(raw)
	}

	text.WriteString(m.Name + m.ToolCallID)
	out.text = text.String()

	return out, nil
}

func renderPart(part any) (text string, image, ok bool) {
	object, is := part.(map[string]any)
	if !is {
		text, is = part.(string) // some templates take bare texts
		return text, false, is
	}

	if text, is = object["text"].(string); is {
		return text, false, true
	}

	_, image = object["image_url"]

	return "", image, image
}

func renderTools(tools []any) (string, error) {
	if len(tools) == 0 {
		return "", nil
	}

	for i, tool := range tools {
		if _, object := tool.(map[string]any); !object {
			return "", domain.Invalidf(fmt.Sprintf("body.tools[%d]", i), "must be an object")
		}
	}

	raw, err := json.Marshal(tools)
	if err != nil {
		return "", domain.Invalidf("body.tools", "cannot be read")
	}

	return string(raw), nil
}
