package transfer

import (
	"regexp"
	"slices"

	"everloop/domain"
)

// Bounds of a session's setup, as those of the interface.
const (
	maxAgents      = 50
	maxPermissions = 200
	maxBuckets     = 20
	maxSetupText   = 50_000
)

var agentName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}$`)

// checkSetup checks how the agent of the session was set up.
func (p *pack) checkSetup() error {
	s := p.session.Setup
	if len(s.Agents) > maxAgents || len(s.Permissions) > maxPermissions || len(s.EnvBuckets) > maxBuckets {
		return badf("%s: session_setup holds more than a session can have", sessionFile)
	}

	for _, a := range s.Agents {
		if !agentName.MatchString(a.Name) || len(a.Prompt)+len(a.Description) > maxSetupText || len(a.Tools) > maxPermissions ||
			len(a.Model) > 256 {
			return badf("%s: an agent of session_setup is not usable", sessionFile)
		}
	}

	for _, rule := range s.Permissions {
		if err := oneOf(
			"the decision of a rule",
			rule.Decision,
			domain.PermissionAllow,
			domain.PermissionAsk,
			domain.PermissionDeny,
		); err != nil {
			return err
		}

		if rule.Tool == "" || len(rule.Tool) > 256 || len(rule.Pattern) > 2000 || len(rule.Argument) > 200 || len(rule.Digest) > 71 ||
			len(rule.Call) > maxSetupText {
			return badf("%s: a rule of session_setup is not usable", sessionFile)
		}
	}

	if b := s.Budget; b != nil && (b.MaxTokens != nil && *b.MaxTokens < 1 || b.MaxCost != nil && *b.MaxCost < 0) {
		return badf("%s: the budget of session_setup is not usable", sessionFile)
	}

	if c := s.Compaction; c != nil && (c.ThresholdPct < 10 || c.ThresholdPct > 95 || c.KeepLast < 0 || c.KeepLast > 200) {
		return badf("%s: the compaction of session_setup is not usable", sessionFile)
	}

	if s.MaxSteps < 0 || s.MaxSteps > 10_000 || s.StuckAfter < 0 || s.StuckAfter > 1000 ||
		s.MaxModelRetryS < 0 || s.MaxModelRetryS > domain.MaxModelRetryS {
		return badf("%s: session_setup has impossible numbers", sessionFile)
	}

	if s.Network != "" && !s.Network.Valid() {
		return badf("%s: the network of session_setup is not usable", sessionFile)
	}

	if !s.QuestionPolicy.Valid() {
		return badf("%s: the question policy of session_setup is not usable", sessionFile)
	}

	return nil
}

// carried returns what of a setup an import takes over. An archive may come from
// anybody: it opens none of the importer's environment buckets to the session's
// tools, allows no call that their own rules would ask about, makes no call by itself, has
// no other user answer its questions, and gives their agent no instructions.
func carried(s domain.SessionSetup) domain.SessionSetup {
	s.EnvBuckets = nil
	s.Permissions = slices.DeleteFunc(slices.Clone(s.Permissions), allows)
	s.SkipConfirmations, s.Script, s.Escalation = false, nil, nil

	if s.QuestionPolicy != nil && s.QuestionPolicy.OnTimeout == domain.PolicyAnswer {
		s.QuestionPolicy = nil // the answer is part of the escalation
	}

	s.Instructions, s.Skills, s.Agent, s.LayoutType, s.PreviewURLs = "", nil, nil, "", nil

	return s
}

func allows(rule domain.PermissionRule) bool { return rule.Decision == domain.PermissionAllow }

// leftBehind warns of what carried leaves out.
func leftBehind(s domain.SessionSetup) []string {
	var warnings []string
	if len(s.EnvBuckets) > 0 {
		warnings = append(warnings, "the environment buckets of the session are not taken over; set session_setup.env_buckets again")
	}

	if slices.ContainsFunc(s.Permissions, allows) {
		warnings = append(warnings, "rules that allow tool calls are not taken over; set session_setup.permissions again")
	}

	if s.SkipConfirmations {
		warnings = append(warnings, "skip_confirmations is not taken over: the session asks for permissions and answers")
	}

	if s.Agent != nil || s.Instructions != "" {
		warnings = append(warnings, "the agent of the session is not taken over: its instructions, skills and preview URLs")
	}

	return warnings
}
