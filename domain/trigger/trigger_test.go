package trigger

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain/target"
)

var arrived = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

func macOf(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))

	return h.Sum(nil)
}

// signed returns a request that is signed by a scheme at a time.
func signed(auth Auth, secret, body string, at time.Time) Request {
	r := Request{Headers: map[string]string{}, Body: []byte(body), At: arrived}
	seconds := strconv.FormatInt(at.Unix(), 10)

	switch auth {
	case Bearer:
		r.Headers["authorization"] = "Bearer " + secret
	case Standard:
		key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		r.Headers["webhook-id"], r.Headers["webhook-timestamp"] = "msg_1", seconds
		r.Headers["webhook-signature"] = "v1,bm90IHRoaXM= v1," + base64.StdEncoding.EncodeToString(macOf(key, "msg_1."+seconds+"."+body))
	case GitHub:
		r.Headers["x-hub-signature-256"] = "sha256=" + hex.EncodeToString(macOf([]byte(secret), body))
	case GitLab:
		r.Headers["x-gitlab-token"] = secret
	case Slack:
		r.Headers["x-slack-request-timestamp"] = seconds
		r.Headers["x-slack-signature"] = "v0=" + hex.EncodeToString(macOf([]byte(secret), "v0:"+seconds+":"+body))
	}

	return r
}

func TestVerify(t *testing.T) {
	t.Parallel()

	secrets := map[Auth]string{
		Bearer: "a secret of the sender", Standard: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", GitHub: "another secret of the sender",
		GitLab: "a secret of the sender", Slack: "8f742231b10e8888abcd99yyyzzz85a5",
	}
	for auth, secret := range secrets {
		require.Empty(t, Verify(auth, secret, signed(auth, secret, `{"a":1}`, arrived)), auth)
		require.Equal(t, SignatureMissing, Verify(auth, secret, Request{Headers: map[string]string{}, At: arrived}), auth)
		require.Equal(t, SignatureMismatch, Verify(auth, "another "+secret, signed(auth, secret, `{}`, arrived)), auth)

		timed := auth == Standard || auth == Slack
		for _, off := range []time.Duration{-ReplayWindow - time.Second, ReplayWindow + time.Second} {
			reason := Verify(auth, secret, signed(auth, secret, `{}`, arrived.Add(off)))
			require.Equal(t, timed, reason == TimestampOutside, "%s %s", auth, off)
		}

		changed := signed(auth, secret, `{"a":1}`, arrived)
		changed.Body = []byte(`{"a":2}`)
		require.Equal(t, auth == Bearer || auth == GitLab, Verify(auth, secret, changed) == "", "%s: another body", auth)
	}

	require.NotEmpty(t, Verify("", "", Request{Headers: map[string]string{"authorization": "Bearer "}}))
}

// The example of GitHub's documentation.
func TestVerify_publishedExample(t *testing.T) {
	t.Parallel()

	r := Request{Body: []byte("Hello, World!"), At: arrived, Headers: map[string]string{
		"x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
	}}
	require.Empty(t, Verify(GitHub, "It's a Secret to Everybody", r))
}

// With a signing token GitLab signs by Standard Webhooks, and the secret token is not looked at.
func TestVerify_signingTokenOfGitLab(t *testing.T) {
	t.Parallel()

	const token = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

	r := signed(Standard, token, `{}`, arrived)
	require.Empty(t, Verify(GitLab, token, r))

	r.Headers["x-gitlab-token"], r.Headers["webhook-signature"] = token, "v1,AAAA"
	require.Equal(t, SignatureMismatch, Verify(GitLab, token, r))
}

func TestKeyOf(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		auth    Auth
		headers map[string]string
		body    string
		want    string
	}{
		"standard":        {Standard, map[string]string{"webhook-id": "msg_1"}, `{}`, "msg_1"},
		"github":          {GitHub, map[string]string{"x-github-delivery": "72d3162e"}, `{}`, "72d3162e"},
		"gitlab":          {GitLab, map[string]string{"x-gitlab-event-uuid": "u"}, `{}`, "u"},
		"gitlab, retried": {GitLab, map[string]string{"x-gitlab-event-uuid": "u", "idempotency-key": "i"}, `{}`, "i"},
		"slack":           {Slack, nil, `{"event_id":"Ev08"}`, "Ev08"},
		"bearer":          {Bearer, map[string]string{"idempotency-key": "i"}, `{}`, "i"},
	} {
		r := Request{Headers: c.headers, Body: []byte(c.body)}
		key, derived := KeyOf(c.auth, r, PayloadOf(c.auth, r).Body)
		require.Equal(t, c.want, key, name)
		require.False(t, derived, name)
	}

	of := func(at, body string) string {
		key, derived := KeyOf(Slack, Request{Headers: map[string]string{"x-slack-request-timestamp": at}, Body: []byte(body)}, nil)
		require.True(t, derived)

		return key
	}
	require.Equal(t, of("1", "a"), of("1", "a"))
	require.NotEqual(t, of("1", "a"), of("2", "a"))
	require.NotEqual(t, of("1", "a"), of("1", "b"))

	long, _ := KeyOf(GitHub, Request{Headers: map[string]string{"x-github-delivery": strings.Repeat("x", 10_000)}}, nil)
	require.LessOrEqual(t, len(long), maxKey)
}

// Payloads in the forms of the senders' documentation.
func TestPayload(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		auth                Auth
		headers             map[string]string
		body, filter, event string
		text, want          string
	}{
		"github pull request": {
			GitHub,
			map[string]string{"x-github-event": "pull_request", "content-type": "application/json"},
			`{"action":"opened","number":2,"pull_request":{"html_url":"https://github.com/octo/hello/pull/2","labels":[{"name":"bug"}]}}`,
			`event == "pull_request" and body.action in ["opened", "reopened"] and any(body.pull_request.labels, .name == "bug")`,
			"pull_request", "Review {{body.pull_request.html_url}} ({{ body.pull_request.labels.0.name }}, {{body.number}})",
			"Review https://github.com/octo/hello/pull/2 (bug, 2)",
		},
		"github form": {
			GitHub,
			map[string]string{"x-github-event": "issues", "content-type": "application/x-www-form-urlencoded"},
			`payload=%7B%22issue%22%3A%7B%22id%22%3A12345678901234567890%7D%7D`, `headers["x-github-event"] == "issues"`, "issues",
			"{{body.issue.id}} {{headers.X-GitHub-Event}}", "12345678901234567890 issues",
		},
		"gitlab push": {
			GitLab,
			map[string]string{"x-gitlab-event": "Push Hook", "content-type": "application/json"},
			`{"object_kind":"push","ref":"refs/heads/main","commits":[{"id":"b6568db1"}]}`,
			`event == "Push Hook" and body.ref == "refs/heads/main" and len(body.commits) > 0`, "Push Hook",
			"{{body.commits.0}}", `{"id":"b6568db1"}`,
		},
		"slack mention": {
			Slack,
			map[string]string{"content-type": "application/json"},
			`{"type":"event_callback","event_id":"Ev08","event":{"type":"app_mention","text":"<@U1> status?"}}`,
			`event == "app_mention"`, "app_mention", "{{body.event.text}}", "<@U1> status?",
		},
		"slack command": {
			Slack,
			map[string]string{"content-type": "application/x-www-form-urlencoded"},
			`command=%2Fdeploy&text=now`, `body.text == "now"`, "/deploy", "{{event}} {{body.text}}", "/deploy now",
		},
		"standard": {
			Standard,
			map[string]string{"content-type": "application/json"},
			`{"type":"invoice.paid","data":{"n":1.5}}`,
			`body.data.n == 1.5`, "invoice.paid", "{{body.data.n}}{{body.missing.x}} {{tick.time}}", "1.5 {{tick.time}}",
		},
		"text": {Bearer, map[string]string{"content-type": "text/plain"}, `disk full`, `body contains "full"`, "", "{{body}}", "disk full"},
		"text that looks like a reference": {
			Bearer, map[string]string{}, `"{{event}} {{headers.authorization}}"`, ``, "", "{{body}}", "{{event}} {{headers.authorization}}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			p := PayloadOf(c.auth, Request{Headers: c.headers, Body: []byte(c.body)})
			require.Equal(t, c.event, p.Event)
			require.NoError(t, CheckFilter(c.filter))
			require.NoError(t, CheckTemplate("body.target.prompt", c.text))

			passes, err := Passes(c.filter, p)
			require.NoError(t, err)
			require.True(t, passes)

			of := target.Target{Kind: target.Prompt, Prompt: c.text}
			values, fits := p.Values(of)
			require.True(t, fits)
			require.Equal(t, c.want, of.Filled(values).Prompt)
		})
	}
}

// A filter is bounded as the condition of a DAG is: only what it reads counts.
func TestPasses_isBounded(t *testing.T) {
	t.Parallel()

	large := Payload{Body: map[string]any{"ref": "main", "text": strings.Repeat("x", MaxBody)}}
	passes, err := Passes(`body.ref == "main"`, large)
	require.NoError(t, err)
	require.True(t, passes)

	for _, filter := range []string{`body.text != ""`, `body["text"] != ""`, `len(body) > 0`, `$env["body"].text != ""`} {
		_, err = Passes(filter, large)
		require.ErrorContains(t, err, "65536 bytes", filter)
	}

	list := make([]any, 10_000)
	for i := range list {
		list[i] = json.Number("0")
	}

	_, err = Passes(`all(body.a, body.a == body.a)`, Payload{Body: map[string]any{"a": list}})
	require.ErrorContains(t, err, "too many steps")
	require.Error(t, CheckFilter(`all(body.a, any(body.a, true))`))
	require.Error(t, CheckFilter(`secret == 1`))
}

func TestValues_areBounded(t *testing.T) {
	t.Parallel()

	p := Payload{Body: strings.Repeat("x", maxFilled/4)}
	large := strings.Repeat("{{body}}", 100)

	for name, c := range map[string]struct {
		of   target.Target
		fits bool
	}{
		"three":      {target.Target{Kind: target.Prompt, Prompt: "{{body}}{{body}}{{body}}"}, true},
		"a prompt":   {target.Target{Kind: target.Prompt, Prompt: large}, false},
		"a title":    {target.Target{Kind: target.Issue, Title: large}, false},
		"an input":   {target.Target{Kind: target.DAG, Inputs: map[string]any{"deep": []any{large}}}, false},
		"several":    {target.Target{Kind: target.Issue, Title: "{{body}}{{body}}", Description: "{{body}}{{body}}{{body}}"}, false},
		"its inputs": {target.Target{Kind: target.Prompt, Prompt: "{{input.a}}", Inputs: map[string]any{"a": "{{body}}"}}, true},
		"input, again": {target.Target{
			Kind: target.Prompt, Prompt: strings.Repeat("{{input.a}}", 9), Inputs: map[string]any{"a": "{{body}}"},
		}, false},
	} {
		_, fits := p.Values(c.of)
		require.Equal(t, c.fits, fits, name)
	}
}

// What an event contains is not a reference, also when it looks like one.
func TestValues_ofInputs(t *testing.T) {
	t.Parallel()

	of := target.Target{
		Kind: target.Agent, Prompt: "{{input.what}} {{event}} {{input.none}}",
		Inputs: map[string]any{"what": "{{body.text}}", "other": "secret"},
	}
	values, fits := Payload{Body: map[string]any{"text": "{{input.other}}"}, Event: "push"}.Values(of)
	require.True(t, fits)
	require.Equal(t, "{{input.other}} push {{input.none}}", of.Filled(values).Prompt)
}

func TestStoredHeaders_withoutCredentials(t *testing.T) {
	t.Parallel()

	stored := StoredHeaders(map[string]string{
		"authorization": "Bearer x", "cookie": "x", "x-gitlab-token": "x", "x-hub-signature": "x", "x-hub-signature-256": "x",
		"x-slack-signature": "x", "webhook-signature": "x", "x-api-key": "x", "x-auth-token": "x", "proxy-authorization": "x",
		"x-github-event": "push",
	})
	for name, value := range stored {
		require.Equal(t, name == "x-github-event", value != redacted, name)
	}

	many := map[string]string{}
	for i := range 1000 {
		many[fmt.Sprint("x-", i)] = strings.Repeat("y", 5000)
	}

	require.LessOrEqual(t, len(StoredHeaders(many)), 100)
	require.NotContains(t, ShownBody([]byte(`{"key":"ghp_abcdefghijklmnopqrstuvwxyz012345"}`)), "ghp_")
	require.LessOrEqual(t, len(ShownBody([]byte(strings.Repeat("ä", MaxShownBody)))), MaxShownBody)
}

func TestTake(t *testing.T) {
	t.Parallel()

	var next time.Time

	for range 3 {
		var wait time.Duration

		next, wait = Take(next, arrived, 3)
		require.Zero(t, wait)
	}

	_, wait := Take(next, arrived, 3)
	require.Equal(t, 20*time.Second, wait)
	_, wait = Take(next, arrived.Add(wait), 3)
	require.Zero(t, wait)
}

func TestCheckChain(t *testing.T) {
	t.Parallel()

	require.Empty(t, CheckChain(nil, "a"))
	require.Equal(t, ReasonCircle, CheckChain([]string{"a", "b"}, "a"))
	require.Empty(t, CheckChain(strings.Split("1234567", ""), "a"))
	require.Equal(t, ReasonDepth, CheckChain(strings.Split("12345678", ""), "a"))
}

func TestChallenge(t *testing.T) {
	t.Parallel()

	body := parseBody("application/json", []byte(`{"type":"url_verification","challenge":"3eZbrw1a"}`))
	require.Equal(t, "3eZbrw1a", Challenge(Slack, body))
	require.Empty(t, Challenge(GitHub, body))
}
