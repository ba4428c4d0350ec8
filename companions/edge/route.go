package edge

import (
	"net/http"
	"regexp"
	"strings"

	"github.com/google/uuid"
)

// HeaderRequestID is the header with the request id, which is also in the body of an error and
// in the log.
const HeaderRequestID = "X-Request-Id"

// requestIDs matches ids that are accepted from clients.
var requestIDs = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)

// identify returns the id of a request from its response header. If the header has none, it
// sets the id that the client sent, or a new one.
func identify(header http.Header, sent string) string {
	if id := header.Get(HeaderRequestID); id != "" {
		return id
	}

	if !requestIDs.MatchString(sent) {
		sent = uuid.Must(uuid.NewV7()).String()
	}

	header.Set(HeaderRequestID, sent)

	return sent
}

// methods are the methods that handlers are registered for.
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
}

// Allowed returns the methods of a path, for the handler of the pattern "/", which otherwise
// hides them; none: the path does not exist.
func Allowed(mux *http.ServeMux, r *http.Request) (allowed []string) {
	for _, method := range methods {
		if _, pattern := mux.Handler(&http.Request{Method: method, URL: r.URL, Host: r.Host}); pattern != "" && pattern != "/" {
			allowed = append(allowed, method)
		}
	}

	return allowed
}

// NoRoute handles requests that match only the pattern "/" of mux: 405 with Allow for a path
// with other methods, else 404 with a detail.
func NoRoute(mux *http.ServeMux, detail string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		allowed := Allowed(mux, r)
		if len(allowed) == 0 {
			Answer(w, r, Refuse(http.StatusNotFound, "route_not_found", "%s", detail))
			return
		}

		list := strings.Join(allowed, ", ")
		w.Header().Set("Allow", list)
		Answer(w, r, Refuse(http.StatusMethodNotAllowed, "method_not_allowed", "this path takes %s only", list))
	}
}
