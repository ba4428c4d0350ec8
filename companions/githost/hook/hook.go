// Package hook is the program that git runs before it accepts a push: it passes the requested
// changes to the git hosting service over an inherited socket, prints the service's messages,
// and exits with the service's decision. It decides nothing itself, and must not depend on
// repositories or skills.
//
// A binary that links this package runs this program when it is run by the name Name with
// Variable set.
package hook

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Name is the hook of git that the program is run as.
const Name = "pre-receive"

// Variable of the environment marks a run by the service.
const Variable = "EVERLOOP_GIT_HOOK"

// socketFD is the inherited descriptor: the number of exec.Cmd's first extra file.
const socketFD = 3

// Bounds of one push.
const (
	MaxUpdates = 100
	MaxRequest = 256 << 10 // bytes of a request
	maxLine    = 1024      // bytes of an update, as git writes it
)

// Request is the message of the program to the service, as one line of JSON.
type Request struct {
	Quarantine string   `json:"quarantine"` // directory of the objects of the push
	Updates    []Update `json:"updates"`
	TooMany    bool     `json:"too_many"` // there are more than MaxUpdates
}

// Update is the requested change of one reference; zeroID means none.
type Update struct {
	Old string `json:"old"`
	New string `json:"new"`
	Ref string `json:"ref"`
}

// Reply is a JSON line of the service: a text for the client, or the decision.
type Reply struct {
	Say    string `json:"say,omitempty"`
	Done   bool   `json:"done,omitempty"`
	Accept bool   `json:"accept,omitempty"`
}

// The hook runs and exits here, before packages that it does not need are initialised.
func init() {
	if os.Getenv(Variable) == "" || filepath.Base(os.Args[0]) != Name {
		return
	}

	accepted, err := run(os.Stdin, os.NewFile(socketFD, "service"), os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "the git hosting service has ended: nothing was changed; push again")
	}

	if !accepted {
		os.Exit(1)
	}

	os.Exit(0)
}

// run sends the updates and returns the decision. An error means that the connection to the
// service was lost.
func run(updates io.Reader, service io.ReadWriter, client io.Writer) (accepted bool, err error) {
	request := Request{Quarantine: os.Getenv("GIT_QUARANTINE_PATH"), Updates: []Update{}}
	lines := bufio.NewScanner(updates)
	lines.Buffer(nil, maxLine)

	for lines.Scan() {
		if len(request.Updates) == MaxUpdates {
			request.TooMany = true
			break
		}

		parts := strings.SplitN(lines.Text(), " ", 3)
		if len(parts) != 3 {
			return false, errors.New("an update of git has another form")
		}

		request.Updates = append(request.Updates, Update{Old: parts[0], New: parts[1], Ref: parts[2]})
	}

	if err := lines.Err(); err != nil {
		return false, err
	}

	if err := json.NewEncoder(service).Encode(request); err != nil {
		return false, err
	}

	replies := json.NewDecoder(service)

	for {
		var reply Reply
		if err := replies.Decode(&reply); err != nil {
			return false, err
		}

		if reply.Done {
			return reply.Accept, nil
		}

		fmt.Fprintln(client, reply.Say)
	}
}
