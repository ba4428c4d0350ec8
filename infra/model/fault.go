package model

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"everloop/domain"
)

const (
	maxErrorBody = 64 << 10
	maxErrorText = 500 // maximum characters of a server's text
)

// Patterns of errors about a prompt that exceeds the context window of the model, in lower case;
// testdata/faults.json contains the messages of tested servers.
var (
	// overflowCodes are sufficient.
	overflowCodes = regexp.MustCompile(`context_length_exceeded|exceed_context_size|max_prompt_tokens_exceeded`)
	// overflowWindow matches mentions of the model's window: any refusal with one means that it
	// is exceeded.
	overflowWindow = regexp.MustCompile(
		`(max(imum)?|model'?s?|total|available|supported|loaded)[ _-](allowed |model |prompt |input |context )*` +
			`(context|prompt|input|model)[ _-]?(length|window|size|limit|tokens?)|` +
			`context[ _-](length|window|size|limit|shift)|model (token|context) limit|\bn_ctx\b`,
	)
	overflowExcess = regexp.MustCompile(
		`exceed|too (long|large|big|many|small)|longer|larger|greater|bigger|more than|only|however|over(flow)?|not fit|>|reduce|` +
			`must be|should be|requested|contains`,
	)
	// overflowPrompt matches mentions of the prompt and its tokens, or its length.
	overflowPrompt = regexp.MustCompile(
		`(prompt|input|inputs|conversation|messages|request)\b[^;]{0,80}` +
			`(too (long|large|big|many)|exceed|(longer|larger|greater|bigger|more) than|must (be|have))`,
	)
	overflowTokens = regexp.MustCompile(`\btokens?\b|context`)
	overflowPlain  = regexp.MustCompile(
		`maximum (context|prompt) length|` +
			`(prompt|input|conversation)( text| length| size)? (is |are |was )?too (long|large|big)( to process)?|` +
			`prompt exceeds|(prompt|input) length (\([0-9]+\) )?exceed|range of input length|exceeds the maximum allowed length|` +
			`too many total text bytes|reduce the length of the (messages|prompt|input)|too many tokens`,
	)
	// notOverflow matches errors about the length of a field.
	notOverflow = regexp.MustCompile(`string too long|max_tokens.{0,40}output|output tokens?.{0,40}max_tokens`)
)

// Patterns of rate limits, for which a retry helps, and of quotas, for which it does not.
var (
	rateWords = regexp.MustCompile(
		`rate[ _-]?limit|too many requests|throttl|\b(per|a) (second|sec|minute|min|hour|day)\b|/ ?min\b|\b[tr]p[mdsh]\b|` +
			`perminute|perday|(retry|try again|wait) (in|after) `,
	)
	quotaCodes = regexp.MustCompile(
		`insufficient[_ -]?(user_)?(quota|balance|credits?|funds?)|exceeded_current_quota|billing|` +
			`payment_required|credits?_(exhausted|depleted)|arrear`,
	)
	// monthly matches quotas, even if the server names a delay.
	monthly = regexp.MustCompile(
		`(monthly|per month)[^.]{0,40}(limit|quota|usage|spend|budget|\bcap\b|allowance)|` +
			`(limit|quota|usage|spend|budget|\bcap\b|allowance)[^.]{0,30}(monthly|per month|this month|for the month)`,
	)
	quotaWords = regexp.MustCompile(
		`insufficient (account )?(quota|balance|credits?|funds?)|exceeded your current quota|\bbilling\b|credit balance|out of credits?|` +
			`((no|not enough|more|add|purchase|buy|remaining) (\w+ )?credits?)|` +
			`credits? (limit|are |is |have been |has been )?(exhausted|depleted|used up|required|exceeded|reached)|` +
			`payment required|\bmonthly\b|per month|spend(ing)? (limit|cap)|hard limit|usage limits?|` +
			`quota[ _](is |has been |was )?(exhausted|exceeded|reached)|` +
			`exceeded (the |its |your )?(\w+ )?quota|arrear|overdue|key limit exceeded|余额|欠费`,
	)
)

// serverError contains the parsed fields of an error response in any shape.
type serverError struct {
	message string
	param   string // invalid field of the request
	cause   string // the upstream error of a router
	code    string // code, type and status, in lower case
	status  int    // the code as an HTTP status
}

// httpFault classifies a response with a status other than 200. pictures reports whether the
// request contained pictures.
func (c *Client) httpFault(res *http.Response, pictures bool) *domain.ModelError {
	fault, _ := c.httpFaultWords(res, pictures)
	return fault
}

// httpFaultWords is httpFault, and also returns the server's text in lower case.
func (c *Client) httpFaultWords(res *http.Response, pictures bool) (fault *domain.ModelError, words string) {
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody)) // a partial body is still used

	e := readError(body)
	if e.message == "" {
		e.message = "the server gave no reason"
	}

	return &domain.ModelError{
		Fault: sortFault(res.StatusCode, e, pictures), Status: res.StatusCode,
		Message: c.clean(e.message), Detail: c.clean(e.detail()), RetryAfter: retryAfter(res.Header),
	}, e.words()
}

// bodyFault classifies an error object with status 200: within a stream, or as the whole
// response.
func (c *Client) bodyFault(body []byte) *domain.ModelError {
	e := readError(body)
	if e.message == "" {
		e.message = "the model server reported an error without a text"
	}

	return &domain.ModelError{Fault: sortFault(e.status, e, true), Message: c.clean(e.message), Detail: c.clean(e.detail())}
}

// sortFault classifies a fault as retryable or permanent. Status 0 means that only the error's
// text is available; the fault is then transient unless the text matches another class.
func sortFault(status int, e serverError, pictures bool) domain.ModelFault {
	words := e.words()

	switch {
	case exhausted(status, e.code, words):
		return domain.FaultQuota
	case status == http.StatusTooManyRequests, mayOverflow(status) && rateWords.MatchString(words):
		return domain.FaultRateLimited
	case mayOverflow(status) && overflows(words), status == http.StatusRequestEntityTooLarge && !pictures:
		return domain.FaultContextOverflow
	case status < 500 && (status == http.StatusNotFound || strings.Contains(e.code, "model_not_found")):
		return domain.FaultUnknownModel
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly, status >= 500:
		return domain.FaultTransient
	case status != 0:
		return domain.FaultRefused
	case strings.Contains(e.code, "invalid_request"), strings.Contains(e.code, "authentication"),
		strings.Contains(e.code, "permission"), strings.Contains(e.code, "invalid_api_key"):
		return domain.FaultRefused
	}

	return domain.FaultTransient
}

func mayOverflow(status int) bool {
	switch status {
	case 0, http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity, http.StatusInternalServerError:
		return true
	}

	return false
}

// exhausted reports whether an account's quota is exhausted, so that retries are futile.
func exhausted(status int, code, words string) bool {
	switch status {
	case http.StatusPaymentRequired:
		return true
	case 0, http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return quotaCodes.MatchString(code) || monthly.MatchString(words) || quotaWords.MatchString(words) && !rateWords.MatchString(words)
	}

	return false
}

func overflows(words string) bool {
	switch {
	case overflowCodes.MatchString(words):
		return true
	case notOverflow.MatchString(words):
		return false
	}

	return overflowPlain.MatchString(words) || overflowWindow.MatchString(words) && overflowExcess.MatchString(words) ||
		overflowPrompt.MatchString(words) && overflowTokens.MatchString(words)
}

// words returns the server's text of the error, in lower case.
func (e serverError) words() string {
	return strings.ToLower(e.code + " " + e.param + " " + e.message + " " + e.cause)
}

// detail returns the server's additional text.
func (e serverError) detail() string { return strings.TrimSpace(e.param + " " + e.cause) }

// readError parses the message and code of the error shapes of tested servers: {"error":
// {message, type, code}}, {"error": "text"}, {"object": "error", "message": …}, {"detail": …}, a
// list of one of these, or plain text.
func readError(body []byte) serverError {
	object := gjson.ParseBytes(body)
	if !json.Valid(body) {
		return serverError{message: strings.TrimSpace(string(body))}
	}

	if object.IsArray() {
		object = object.Get("0")
	}

	if inner := object.Get("error"); inner.Exists() && inner.Type != gjson.Null {
		if !inner.IsObject() {
			return serverError{message: inner.String(), code: strings.ToLower(object.Get("code").String())}
		}

		object = inner
	}

	e := serverError{
		message: object.Get("message").String(), param: object.Get("param").String(), cause: object.Get("metadata.raw").String(),
	}
	if e.message == "" {
		e.message = detail(object.Get("detail"))
	}

	code := object.Get("code")
	if n, ok := number(code); ok && n >= 400 && n < 600 {
		e.status = int(n)
	}

	e.code = strings.ToLower(code.String() + " " + object.Get("type").String() + " " + object.Get("status").String())

	return e
}

// detail returns the text of a validation error. It omits the items' copies of the request.
func detail(of gjson.Result) string {
	if !of.IsArray() {
		return of.String()
	}

	var faults []string

	for _, item := range of.Array() {
		var at []string
		for _, name := range item.Get("loc").Array() {
			at = append(at, name.String())
		}

		faults = append(faults, strings.TrimSpace(strings.Join(at, ".")+" "+item.Get("msg").String()+" "+item.Get("type").String()))
	}

	return strings.Join(faults, "; ")
}

// clean sanitises a server's text for display and storage: without the key, valid UTF-8 without
// NUL, and truncated.
func (c *Client) clean(text string) string {
	if c.cfg.Key != "" {
		text = strings.ReplaceAll(text, c.cfg.Key, "***")
	}

	text = domain.CleanText(text)
	if utf8.RuneCountInString(text) <= maxErrorText {
		return text
	}

	runes := []rune(text)

	return fmt.Sprintf("%s… (%d characters more)", string(runes[:maxErrorText]), len(runes)-maxErrorText)
}
