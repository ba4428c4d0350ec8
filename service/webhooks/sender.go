package webhooks

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"everloop/domain"
	"everloop/domain/webhook"
	"everloop/infra/netguard"
)

// Time limits of one request, and the maximum bytes of an answer's header.
const (
	connectTime = 5 * time.Second
	requestTime = 15 * time.Second
	maxHeader   = 64 << 10
)

// identity is the User-Agent header.
const identity = "Everloop/1.0 (webhook)"

// sender posts deliveries, signed by the rules of Standard Webhooks. It keeps no connections,
// follows no redirects, uses no proxy, and is safe for concurrent use.
type sender struct {
	guard *netguard.Guard
	http  *http.Client
	time  time.Duration // of a whole request
}

// newSender returns a new sender that connects only where the guard allows it.
func newSender(guard *netguard.Guard) *sender {
	s := &sender{guard: guard, time: requestTime}
	s.http = &http.Client{
		Transport: &http.Transport{
			Proxy:                  nil, // a proxy would connect where the guard does not look
			DialContext:            s.dial,
			DisableKeepAlives:      true,
			DisableCompression:     true,
			TLSHandshakeTimeout:    connectTime,
			MaxResponseHeaderBytes: maxHeader,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}

	return s
}

func (s *sender) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}

	dialer := net.Dialer{Timeout: connectTime, Control: s.guard.Control(host, "")}

	return dialer.DialContext(ctx, network, addr)
}

// send posts the body with a signature of each secret. Errors name no URL, because a URL may
// contain a secret of its owner.
func (s *sender) send(ctx context.Context, to, id, body string, secrets []string) webhook.Answer {
	answer := webhook.Answer{At: time.Now().UTC()}

	ctx, cancel := context.WithTimeout(ctx, s.time)
	defer cancel()

	request, err := newRequest(ctx, to, id, body, answer.At, secrets)
	if err != nil {
		answer.Error = "the request could not be made"
		return answer
	}

	response, err := s.http.Do(request)
	if err == nil {
		err = read(response, &answer)
	}

	answer.Duration = time.Since(answer.At)
	switch {
	case err != nil:
		answer.Error = explain(ctx, err)
	case answer.StatusCode < 200 || answer.StatusCode > 299:
		answer.Error = "the endpoint answered " + strconv.Itoa(answer.StatusCode)
	}

	return answer
}

func newRequest(ctx context.Context, to, id, body string, at time.Time, secrets []string) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(body))
	if err != nil {
		return nil, err
	}

	var signatures []string

	for _, secret := range secrets {
		signer, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			return nil, err
		}

		signature, err := signer.Sign(id, at, []byte(body))
		if err != nil {
			return nil, err
		}

		signatures = append(signatures, signature)
	}

	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", identity)
	request.Header.Set(standardwebhooks.HeaderWebhookID, id)
	request.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(at.Unix(), 10))
	request.Header.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))

	return request, nil
}

// read takes the status and the beginning of the body.
func read(response *http.Response, answer *webhook.Answer) error {
	defer response.Body.Close()

	answer.StatusCode = response.StatusCode
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		answer.RetryAfter = time.Duration(min(seconds, 24*3600)) * time.Second
	}

	begin, err := io.ReadAll(io.LimitReader(response.Body, webhook.MaxAnswer))
	answer.Response = domain.CleanText(string(begin))

	if response.StatusCode >= 200 && response.StatusCode <= 299 {
		return nil // it was taken, whatever becomes of the rest
	}

	return err
}

// explain puts a failure into words, without the URL.
func explain(ctx context.Context, err error) string {
	if refusal, ok := errors.AsType[*netguard.Refusal](err); ok {
		return refusal.Error()
	}

	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}

	if unknown, ok := errors.AsType[*net.DNSError](err); ok {
		if unknown.IsNotFound {
			return "there is no host of that name"
		}

		return "the host's name could not be looked up"
	}

	if timeout, ok := errors.AsType[net.Error](err); ctx.Err() != nil || ok && timeout.Timeout() {
		return "the endpoint did not answer in time"
	}

	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "the endpoint has no valid certificate"
	}

	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return "no connection to the endpoint could be made"
	}

	return "the answer broke off or could not be understood"
}
