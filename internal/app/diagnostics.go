package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"everloop/infra/sandbox"

	"go.temporal.io/api/enums/v1"
	"golang.org/x/sys/unix"

	"everloop/domain"
	"everloop/internal/durable"
	"everloop/internal/envtable"
	"everloop/internal/sharedfs"
)

// Checks is system.API.Checks: one for each dependency of the running
// service.
func (b *backend) Checks() []domain.Check {
	check := func(id, title, hint string, run func(context.Context) (string, error)) domain.Check {
		return domain.Check{ID: id, Title: title, Run: func(ctx context.Context) domain.CheckResult {
			message, err := run(ctx)
			if err != nil {
				return domain.CheckResult{Status: domain.CheckFail, Message: domain.CleanText(err.Error()), Hint: hint}
			}

			return domain.CheckResult{Status: domain.CheckOK, Message: message}
		}}
	}

	var checks []domain.Check

	for _, e := range b.settings.Engines() {
		run := func(ctx context.Context) (string, error) { return e.Check(ctx, b.Clients) }
		checks = append(checks, check(e.Name, e.Title, e.Hint, run))
	}

	return append(
		checks,
		check("worker", "Workers", "Start a worker with `everloop worker`: nothing runs without one.", b.workers),
		domain.Check{ID: "model", Title: "Models", Run: b.checkModel},
		check(
			"solutions",
			"Solutions",
			"Fix the file and restart; until then the solution is disabled.",
			func(context.Context) (string, error) {
				return fmt.Sprintf("%d can be taken", len(b.solutions.All())), errors.Join(b.solutions.Faults()...)
			},
		),
		domain.Check{ID: "disk", Title: "Disk below DATA_DIR", Run: b.checkDisk},
		domain.Check{ID: "workspaces", Title: "Workspaces below DATA_DIR", Run: b.checkWorkspaces},
		checkAddress("search", "Web search", "SEARCH_URL", b.settings.SearchURL, answers),
		checkAddress("registry", "Skill registry", "REGISTRY_URL", b.settings.RegistryURL, healthy),
		checkAddress("identity", "Identity service", "IDENTITY_URL", b.settings.IdentityURL, healthy),
		checkAddress("git", "Git hosting", "GIT_URL", b.settings.GitURL, serves),
	)
}

// workers asks Temporal who takes work.
func (b *backend) workers(ctx context.Context) (string, error) {
	queue, err := b.Temporal.DescribeTaskQueue(ctx, durable.Queue, enums.TASK_QUEUE_TYPE_WORKFLOW)
	if err != nil {
		return "", err
	}

	pollers := 0

	for _, p := range queue.GetPollers() {
		if time.Since(p.GetLastAccessTime().AsTime()) < 2*time.Minute {
			pollers++
		}
	}

	if pollers == 0 {
		return "", errors.New("no worker has asked for work in the last two minutes")
	}

	return fmt.Sprintf("%d at work", pollers), nil
}

func (b *backend) checkModel(ctx context.Context) domain.CheckResult {
	models, err := b.models.Models(ctx)
	switch {
	case err != nil:
		return domain.CheckResult{Status: domain.CheckFail, Message: err.Error(), Hint: "See that the model server runs and that " +
			"LLM_GATEWAY_URL and LLM_GATEWAY_KEY are right."}
	case len(models) == 0:
		return domain.CheckResult{Status: domain.CheckFail, Message: "the server lists no model", Hint: "Load a model, or point " +
			"LLM_GATEWAY_URL elsewhere."}
	case strings.HasPrefix(models[0].ID, "everloop-"):
		return domain.CheckResult{
			Status:  domain.CheckWarn,
			Message: "only the scripted demo model answers",
			Hint:    "Set LLM_GATEWAY_URL to a chat-completions server.",
		}
	default:
		limits, err := b.DB.AllLimits(ctx)
		if err != nil {
			return domain.CheckResult{Status: domain.CheckFail, Message: err.Error()}
		}

		result := describeLimits(limits)
		result.Message = fmt.Sprintf("%d models, first %s", len(models), models[0].ID) + result.Message

		return result
	}
}

// scarce is the share of a disk below which a warning is due.
const scarce = 0.1

func (b *backend) checkDisk(context.Context) domain.CheckResult {
	var fs unix.Statfs_t
	if err := unix.Statfs(b.settings.DataDir, &fs); err != nil {
		return domain.CheckResult{Status: domain.CheckFail, Message: err.Error(), Hint: "See that DATA_DIR exists and can be read."}
	}

	free, all := float64(fs.Bavail)*float64(fs.Bsize), float64(fs.Blocks)*float64(fs.Bsize)

	result := domain.CheckResult{Status: domain.CheckOK, Message: fmt.Sprintf("%.1f GB free of %.1f GB", free/1e9, all/1e9)}
	if free < scarce*all {
		result.Status, result.Hint = domain.CheckWarn, "Make room: without it nothing can be kept."
	}

	return result
}

// checkWorkspaces tries what workspaces need of their file system: see sharedfs.Probe.
func (b *backend) checkWorkspaces(ctx context.Context) domain.CheckResult {
	dir := filepath.Join(b.settings.DataDir, "workspace")
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		dir = b.settings.DataDir // it is made with the first workspace
	}

	uid := 0
	if os.Geteuid() == 0 {
		uid = sandbox.DefaultUserBase
	}

	findings, err := sharedfs.Probe(ctx, dir, uid)
	if err != nil {
		return domain.CheckResult{
			Status:  domain.CheckFail,
			Message: domain.CleanText(err.Error()),
			Hint:    "Let the service write to " + dir + ".",
		}
	}

	worst, message, hint := sharedfs.Summary(findings)
	status := domain.CheckOK

	switch worst {
	case sharedfs.Fail:
		status = domain.CheckFail
	case sharedfs.Warn:
		status = domain.CheckWarn
	case sharedfs.OK, sharedfs.Info:
	}

	return domain.CheckResult{Status: status, Message: message, Hint: hint}
}

// healthPath is where the services of Everloop say how they are.
const healthPath = "/api/health"

// checkAddress asks the service at a configured address.
func checkAddress(id, title, variable, address string, ask func(ctx context.Context, address string) error) domain.Check {
	return domain.Check{ID: id, Title: title, Run: func(ctx context.Context) domain.CheckResult {
		if address == "" {
			return domain.CheckResult{Status: domain.CheckSkipped, Message: variable + " is not set"}
		}

		if err := ask(ctx, address); err != nil {
			return domain.CheckResult{
				Status:  domain.CheckFail,
				Message: err.Error(),
				Hint:    "See that it runs and that " + variable + " is right.",
			}
		}

		return domain.CheckResult{Status: domain.CheckOK, Message: "answers"}
	}}
}

// Configuration is system.API.Configuration: the variables of the role that runs.
func (b *backend) Configuration() []domain.ConfigGroup {
	flags := b.flags
	if flags == nil {
		flags = b.settings
	}

	service := domain.ConfigGroup{Group: "Service"}
	for _, row := range envtable.Of(flags) {
		service.Items = append(
			service.Items,
			domain.ConfigItem{EnvVar: row.Variable, Value: row.Value, Default: row.Default, Remark: row.Help},
		)
	}

	return []domain.ConfigGroup{service}
}

// healthy asks a companion for its health, which is status 200.
func healthy(ctx context.Context, address string) error {
	return asked(ctx, strings.TrimRight(address, "/")+healthPath, func(status int) bool { return status == http.StatusOK })
}

// serves asks for the page at an address, which is status 200.
func serves(ctx context.Context, address string) error {
	return asked(ctx, strings.TrimRight(address, "/")+"/", func(status int) bool { return status == http.StatusOK })
}

// answers asks an address for anything. Any answer will do that is no fault of the
// server: what the address has to offer, and to whom, is not known here.
func answers(ctx context.Context, address string) error {
	return asked(ctx, address, func(status int) bool { return status < http.StatusInternalServerError })
}

// offers asks an address for what it is there for, or where that is.
func offers(ctx context.Context, address string) error {
	return asked(ctx, address, func(status int) bool { return status < http.StatusBadRequest })
}

func asked(ctx context.Context, address string, right func(status int) bool) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return errors.New("the address is not valid")
	}

	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return err
	}

	if err := response.Body.Close(); err != nil {
		return err
	}

	if !right(response.StatusCode) {
		return fmt.Errorf("it answers with status %d", response.StatusCode)
	}

	return nil
}
