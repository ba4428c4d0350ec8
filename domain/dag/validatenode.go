package dag

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"everloop/domain"
	"everloop/domain/schema"
)

func (v *validator) checkNodes() {
	for i := range v.Nodes {
		n := &v.Nodes[i]
		at := fmt.Sprintf("nodes[%d]", i)
		v.checkConfig(n, at)
		v.checkSchema(n, at)
		v.checkTexts(n, at)
		v.checkBounds(n, at)
		v.checkEscalation(n, at+".approval.escalation")
		v.checkFiles(n, at)
	}

	v.checkWorkspaces()
}

// checkConfig checks the required fields of a node's type, and the names in them.
func (v *validator) checkConfig(n *Node, at string) {
	c := n.config()
	fail := func(code, field, format string, args ...any) {
		v.fail(domain.Finding{Code: code, Message: fmt.Sprintf(format, args...), NodeID: n.ID, Path: at + "." + field})
	}
	need := func(given bool, field, what string) {
		if !given {
			fail(CodeMissingConfig, field, "node %s of the type %s needs %s", n.ID, n.Type, what)
		}
	}

	switch n.Type {
	case Agent:
		need(c.AgentID != "" || c.Prompt != "", "config.prompt", "an agent_id or a prompt")
	case Tool:
		need(c.Tool != "", "config.tool", "the name of a tool")
	case Map:
		need(n.Inputs["items"] != nil, "inputs.items", "a list of items")
		need(c.AgentID != "" || c.Prompt != "" || c.Tool != "" || c.ProdSolutionID != "", "config", "a prompt, an agent_id, a tool or "+
			"a prod_solution_id")
	case Loop:
		need(c.AgentID != "" || c.Prompt != "" || c.Tool != "" || c.ProdSolutionID != "", "config", "a prompt, an agent_id, a tool or "+
			"a prod_solution_id")
		need(c.Condition != "", "config.condition", "a condition")

		if c.Condition != "" {
			if err := checkCondition(c.Condition); err != nil && !isSyntaxError(err) { // reported with its text
				fail(CodeTypeMismatch, "config.condition", "the condition of node %s is not valid: %v", n.ID, err)
			}
		}

		if c.Max < 1 || c.Max > MaxIterations {
			fail(CodeUnboundedLoop, "config.max", "loop %s needs a max of 1 to %d iterations", n.ID, MaxIterations)
		}
	case Human:
		need(c.Prompt != "", "config.prompt", "a question as prompt")
	case Subflow:
		need(c.ProdSolutionID != "", "config.prod_solution_id", "a prod_solution_id")
	case Code:
		need(strings.TrimSpace(c.Code) != "", "config.code", "a script as code")

		if len(c.Code) > MaxCode {
			fail(CodeTypeMismatch, "config.code", "the code of node %s has %d bytes; at most %d are possible", n.ID, len(c.Code), MaxCode)
		}
	case Wait:
		need(c.WaitS > 0, "config.wait_s", "a wait_s above 0")
	case Condition:
		need(slices.ContainsFunc(v.Edges, func(e Edge) bool { return e.Source == n.ID && e.Condition != "" }),
			"config", "an edge that leaves it with a condition")
	case Start, End, Join: // no config required
	}

	if n.OnError == ErrorIsRouted {
		need(slices.ContainsFunc(v.Edges, func(e Edge) bool { return e.Source == n.ID && e.Kind == EdgeError }),
			"on_error", "an edge of the kind error that leaves it")
	}

	if a := n.Approval; a != nil && a.Policy != ApprovalRequired && a.Policy != ApprovalNone {
		fail(CodeTypeMismatch, "approval.policy", "the approval policy of node %s is neither required nor none", n.ID)
	}

	if c.AgentID != "" && !v.known.Agents[c.AgentID] {
		fail(CodeMissingAgent, "config.agent_id", "there is no production agent %s", shorten(c.AgentID))
	}

	if c.Skill != "" && !v.known.Skills[c.Skill] {
		fail(CodeMissingSkill, "config.skill", "there is no skill %s", shorten(c.Skill))
	}

	if tool := n.called(); tool != "" && !v.known.Tools[tool] && !strings.HasPrefix(tool, ToolServerPrefix) {
		fail(CodeUnknownReference, "config.tool", "a node cannot call the tool %s; the tools are %s, and those of tool servers, as "+
			ToolServerPrefix+"SERVER__TOOL", shorten(tool), strings.Join(slices.Sorted(maps.Keys(v.known.Tools)), ", "))
	}

	switch {
	case c.ProdSolutionID == "":
	case c.ProdSolutionID == v.known.SolutionID:
		fail(CodeUnboundedLoop, "config.prod_solution_id", "node %s runs the DAG that it is part of, without end", n.ID)
	case !v.known.Solutions[c.ProdSolutionID]:
		fail(CodeUnknownReference, "config.prod_solution_id", "there is no production solution %s", shorten(c.ProdSolutionID))
	}
}

func isSyntaxError(err error) bool {
	var fault *SyntaxError
	return errors.As(err, &fault)
}

func (v *validator) checkBounds(n *Node, at string) {
	unused := func(field, why string) {
		v.warn(domain.Finding{
			Code:    CodeTypeMismatch,
			Message: fmt.Sprintf("node %s has a field without effect: %s", n.ID, why),
			NodeID:  n.ID,
			Path:    at + "." + field,
		})
	}
	if c := n.config(); c.AgentID != "" && c.Skill != "" {
		unused("config.skill", "the skills are those of the production agent")
	}

	if n.Type != Code && n.config().Code != "" {
		unused("config.code", "only a node of the type code runs it")
	}

	if n.Type != Loop && (n.config().Condition != "" || n.config().Max != 0) {
		unused("config", "only a loop has a condition and a max")
	}

	if n.HeartbeatS != nil && !n.Watched() {
		unused("heartbeat_s", "only agents, tools, code, and maps and loops of them are watched")
	}

	if n.Retry != nil && n.Retry.MaxAttempts == 0 {
		v.fail(domain.Finding{
			Code: CodeUnboundedLoop, Message: fmt.Sprintf("node %s is tried again without end: set max_attempts", n.ID), NodeID: n.ID,
			Path: at + ".retry.max_attempts",
		})
	}
}

// checkEscalation checks the handling of a question that no user answers.
func (v *validator) checkEscalation(n *Node, at string) {
	if n.Approval == nil || n.Approval.Escalation == nil {
		return
	}

	e := n.Approval.Escalation
	asks := n.Approval.Policy == ApprovalRequired
	fail := func(wrong bool, code, field, format string, args ...any) {
		if wrong {
			v.fail(domain.Finding{Code: code, Message: fmt.Sprintf(format, args...), NodeID: n.ID, Path: at + field})
		}
	}

	if !asks && n.Type != Human {
		fail(true, CodeTypeMismatch, "", "node %s asks nothing: an escalation needs the policy required, or a human node", n.ID)
		return
	}

	fail(e.TimeoutS == 0 && e.EscalateAfterS == 0, CodeMissingConfig, "", "the escalation of node %s needs timeout_s or "+
		"escalate_after_s", n.ID)
	fail(e.TimeoutS == 0 && e.DefaultAnswer != "", CodeMissingConfig, ".timeout_s", "default_answer of node %s needs timeout_s", n.ID)
	fail(e.EscalateAfterS == 0 && (len(e.Webhooks) > 0 || e.UserID != ""), CodeMissingConfig, ".escalate_after_s",
		"webhooks and user_id of node %s need escalate_after_s", n.ID)
	fail(e.TimeoutS > 0 && e.EscalateAfterS >= e.TimeoutS, CodeTypeMismatch, ".escalate_after_s",
		"escalate_after_s of node %s is not below its timeout_s", n.ID)

	options := n.config().Options
	if asks {
		options = []string{AnswerApprove, AnswerReject, ""}
	}

	fail(!asks && e.TimeoutS > 0 && e.DefaultAnswer == "", CodeMissingConfig, ".default_answer", "timeout_s of node %s needs "+
		"default_answer", n.ID)
	fail(e.DefaultAnswer != "" && len(options) > 0 && !slices.Contains(options, e.DefaultAnswer), CodeTypeMismatch, ".default_answer",
		"default_answer of node %s is none of its answers", n.ID)

	for i, id := range e.Webhooks {
		fail(!v.known.Webhooks[id], CodeUnknownReference, fmt.Sprintf(".webhooks[%d]", i), "there is no webhook %s", shorten(id))
	}

	fail(e.UserID != "" && !v.known.Colleagues[e.UserID], CodeUnknownReference, ".user_id",
		"user %s is not a member of a workspace of the owner who may act in it", shorten(e.UserID))
}

func (v *validator) checkSchema(n *Node, at string) {
	if n.OutputSchema == nil {
		return
	}

	raw, err := json.Marshal(n.OutputSchema)
	if err == nil {
		_, err = schema.Compile(raw)
	}

	if err != nil {
		v.fail(domain.Finding{Code: CodeTypeMismatch, Message: domain.AsError(err).Message, NodeID: n.ID, Path: at + ".output_schema"})
	}
}
