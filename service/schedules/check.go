package schedules

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"everloop/domain"
	"everloop/domain/cron"
	"everloop/domain/pattern"
	"everloop/domain/schedule"
	"everloop/domain/schema"
	"everloop/domain/target"
	"everloop/service/targets"
)

// check refuses a task that cannot be carried out. With expiry its end must be in the
// future.
func (s *Service) check(ctx context.Context, spec *schedule.TaskSpec, expiry bool) error {
	if err := checkSpec(spec); err != nil {
		return err
	}

	if expiry && spec.ExpiresAt != nil && !spec.ExpiresAt.After(time.Now()) {
		return domain.Invalidf("body.expires_at", "is in the past")
	}

	if spec.Model == nil {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()

	if _, err := s.cfg.Models.Resolve(ctx, *spec.Model); domain.HasCode(err, domain.CodeUnknownModel) {
		e := domain.Invalidf("body.model", "is not a model of the gateway")
		e.Code = domain.CodeUnknownModel

		return e
	}

	return nil
}

// checkSpec checks what needs no other service, and cleans texts.
func checkSpec(spec *schedule.TaskSpec) error {
	spec.Title, spec.Prompt = domain.CleanText(spec.Title), domain.CleanText(spec.Prompt)

	if err := checkTarget(spec); err != nil {
		return err
	}

	spec.Cron = strings.TrimSpace(spec.Cron)

	if _, err := parseCron("body.cron", spec.Cron); err != nil {
		return err
	}

	zone, err := checkZone("body.timezone", spec.Timezone)
	if err != nil {
		return err
	}

	spec.Timezone = zone

	if err := checkOutcome(spec); err != nil {
		return err
	}

	if err := spec.CheckInputs(); err != nil {
		return err
	}

	if len(spec.OutputSchema) > 0 {
		if _, err := schema.Compile(spec.OutputSchema); err != nil {
			return err
		}
	}

	return nil
}

// checkTarget checks the target of a task, and that the task has no fields that it does not use.
func checkTarget(spec *schedule.TaskSpec) error {
	if err := spec.Target.Check("body.target"); spec.Target.Kind != "" && err != nil {
		return err
	}

	if spec.Target.Kind == target.Session {
		return domain.Invalidf("body.target.kind", "must be prompt, agent, dag or issue")
	}

	spec.Settle()
	spec.Target = spec.Target.Map(func(_, text string) string { return domain.CleanText(text) })

	if !spec.Target.Kind.Chats() {
		if field := spec.ChatField(); field != "" {
			return domain.Invalidf("body."+field, "cannot be set for a target of kind %s", spec.Target.Kind)
		}

		return nil
	}

	if strings.TrimSpace(spec.Prompt) == "" {
		return domain.Invalidf("body.prompt", "must not be empty")
	}

	return nil
}

// parseCron reads a cron expression; field is where it stands in the request.
func parseCron(field, expression string) (cron.Schedule, error) {
	parsed, err := cron.Parse(expression)
	if err == nil {
		return parsed, nil
	}

	var fault *cron.Error
	errors.As(err, &fault)
	e := domain.Invalidf(field, "%s", domain.CleanText(fault.Error()))
	e.Code = "invalid_cron"

	return cron.Schedule{}, e
}

// checkZone gives the name of a time zone; none: that of this machine.
func checkZone(field, name string) (string, error) {
	if name == "" {
		return systemZone(), nil
	}

	if !knownZone(name) {
		e := domain.Invalidf(field, "is not an IANA time zone, as Europe/Berlin or UTC")
		e.Code = "invalid_timezone"

		return "", e
	}

	return name, nil
}

// checkNotify refuses webhooks that the owner does not have. Those that the task names
// already may be gone.
func (s *Service) checkNotify(ctx context.Context, ownerID string, before, notify []string) error {
	named := slices.DeleteFunc(slices.Clone(notify), func(id string) bool { return slices.Contains(before, id) })
	if len(named) == 0 {
		return nil
	}

	own, err := s.cfg.Store.OwnWebhooks(ctx, ownerID, named)
	if err == nil && !own {
		err = domain.Invalidf("body.notify", "names a webhook that you do not have")
	}

	return err
}

// checkSetup refuses an agent and a role that the owner may not use, and a network that is wider than the
// service's.
func (s *Service) checkSetup(ctx context.Context, ownerID string, spec schedule.TaskSpec) error {
	setup := spec.Setup
	if !setup.Target.Kind.Chats() {
		err := s.cfg.Targets.Check(ctx, targets.Request{
			OwnerID: ownerID, Target: spec.Start(), Values: spec.Values(schedule.Tick{Time: time.Now(), Previous: time.Now()}),
		})

		return inTarget(err, spec)
	}

	if setup.AgentID != nil {
		if field := setup.Beside(); field != "" {
			return domain.Invalidf("body."+field, "cannot be set together with agent_id: the agent defines it")
		}

		_, err := s.cfg.Agents.ProdAgentByName(ctx, ownerID, *setup.AgentID)

		return err
	}

	if err := s.checkRole(ctx, ownerID, setup); err != nil {
		return err
	}

	if setup.Network != "" && s.cfg.Network.Narrowed(setup.Network) != setup.Network {
		return domain.Invalidf("body.network", "cannot be wider than the service's, which is %s", s.cfg.Network)
	}

	for i, rule := range setup.Permissions {
		if rule.Tool != domain.NetworkTool || rule.Pattern == "" {
			continue
		}

		if _, err := domain.NewNetworkRule(rule.Pattern, rule.Decision); err != nil {
			return domain.Invalidf(fmt.Sprintf("body.permissions[%d].pattern", i), "%s", domain.CleanText(err.Error()))
		}
	}

	return nil
}

// inTarget names the field of the task that has the rejected inputs of a DAG run.
func inTarget(err error, spec schedule.TaskSpec) error {
	e := domain.AsError(err)
	for i := range e.Fields {
		if rest, inputs := strings.CutPrefix(e.Fields[i].Location, "body.inputs"); inputs && spec.Target.Inputs != nil {
			e.Fields[i].Location = "body.target.inputs" + rest
		}
	}

	return err
}

func (s *Service) checkRole(ctx context.Context, ownerID string, setup schedule.Setup) error {
	if setup.SolutionID == nil {
		if setup.BizRoleID != nil {
			return domain.Invalidf("body.biz_role_id", "needs solution_id")
		}

		return nil
	}

	role := ""
	if setup.BizRoleID != nil {
		role = *setup.BizRoleID
	}

	return s.cfg.Agents.CheckRole(ctx, ownerID, *setup.SolutionID, role)
}

// checkOutcome checks the files and commands of an outcome contract.
func checkOutcome(spec *schedule.TaskSpec) error {
	for i, glob := range spec.Files {
		at := fmt.Sprintf("body.files[%d]", i)

		switch {
		case strings.ContainsRune(glob, 0) || !pattern.ValidGlob(glob):
			return domain.Invalidf(at, "is not a valid pattern")
		case path.IsAbs(glob) || slices.Contains(strings.Split(glob, "/"), ".."):
			return domain.Invalidf(at, "leaves the workspace")
		}

		spec.Files[i] = domain.CleanText(glob)
	}

	for i, command := range spec.Commands {
		if strings.TrimSpace(command) == "" || strings.ContainsRune(command, 0) {
			return domain.Invalidf(fmt.Sprintf("body.commands[%d]", i), "is empty or has a NUL character")
		}

		spec.Commands[i] = domain.CleanText(command)
	}

	return nil
}

// knownZone leaves out the names that mean another zone on each machine.
func knownZone(name string) bool {
	if name == "" || name == "Local" {
		return false
	}

	_, err := time.LoadLocation(name)

	return err == nil
}

// systemZone returns the name of this machine's time zone; UTC when it has none.
func systemZone() string {
	if name := strings.TrimPrefix(os.Getenv("TZ"), ":"); knownZone(name) {
		return name
	}

	if target, err := filepath.EvalSymlinks("/etc/localtime"); err == nil {
		if _, name, found := strings.Cut(target, "zoneinfo/"); found && knownZone(name) {
			return name
		}
	}

	return "UTC"
}

func sameTime(a, b *time.Time) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Equal(*b)
}

// otherSession reports whether a session that was made for one cannot be used for the
// other.
func otherSession(a, b schedule.TaskSpec) bool {
	return !same(a.Model, b.Model) || a.SkipConfirmations != b.SkipConfirmations || a.Persistent != b.Persistent ||
		!sameBudget(a.Budget, b.Budget) ||
		!same(a.QuestionPolicy, b.QuestionPolicy) || !same(a.WorkspaceID, b.WorkspaceID) || !a.Setup.Same(b.Setup)
}

func sameBudget(a, b *domain.Budget) bool {
	if a == nil || b == nil {
		return a == b
	}

	return same(a.MaxTokens, b.MaxTokens) && same(a.MaxCost, b.MaxCost)
}

func same[T comparable](a, b *T) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}
