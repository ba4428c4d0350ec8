package commands

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"everloop/activities/tools"
	"everloop/domain"
)

// networkWords describes the network of commands for the model.
func networkWords(mode domain.NetworkMode) string {
	const way = "The network is reached through a proxy at 127.0.0.1:3128 only. git over HTTPS, curl, npm, pip and go find it by " +
		"http_proxy, https_proxy and all_proxy; a program that ignores them reaches nothing, and there is no DNS and no UDP. "

	switch mode {
	case domain.NetworkPublic:
		return way + "All of the public Internet is allowed but what the user has denied; a refused place is named at the end of the " +
			"result."
	case domain.NetworkRules:
		return way + "Only domains that a rule allows are reached. A refused one is named at the end of the result: ask for it with " +
			"RequestAccess and run the command again once it is allowed."
	case domain.NetworkNone:
	}

	return "There is no network."
}

// maxRefusals is how many refused places a result names.
const maxRefusals = 10

// withRefusals adds to the end of a command's result which places it was kept from.
func withRefusals(trailer string, connections []domain.Connection) string {
	var refused []string

	byRule, more := false, 0

	for _, c := range connections {
		switch {
		case c.Decision != domain.ConnectionRefused:
			continue
		case c.Host == "*" || len(refused) == maxRefusals:
			more++
			continue
		}

		byRule = byRule || c.Reason == domain.NoNetworkRule
		refused = append(refused, fmt.Sprintf("%s (%s)", net.JoinHostPort(c.Host, strconv.Itoa(c.Port)), c.Reason))
	}

	if len(refused) == 0 {
		return trailer
	}

	note := "[the network was refused to " + strings.Join(refused, ", ")
	if more > 0 {
		note += " and further places"
	}

	if byRule {
		note += "; RequestAccess asks the user to allow a domain"
	}

	return strings.TrimPrefix(trailer+"\n"+tools.Clean(note)+"]", "\n")
}
