package production

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/gofiber/fiber/v2"

	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/api/sessiondetail"
	"everloop/auth"
	"everloop/domain"
	"everloop/domain/dagrun"
	"everloop/domain/schedule"
	"everloop/domain/target"
	"everloop/service/schedules"
)

// ScheduledTaskRef is the path of an operation on one scheduled task.
type ScheduledTaskRef struct {
	ID string `path:"id" maxLength:"128" doc:"The scheduled task." example:"01a1fd9b-4f0b-74a3-bdbc-594f816ae121"`
}

type taskBudgetBody struct {
	MaxTokens *int64   `json:"max_tokens,omitempty" nullable:"true" minimum:"1" doc:"Input and output tokens; null: no limit." example:"500000"`
	MaxCost   *float64 `json:"max_cost,omitempty" nullable:"true" minimum:"0" doc:"Cost by the prices of the models; null: no limit." example:"1.5"`
}

func (b *taskBudgetBody) budget() *domain.Budget {
	if b == nil || *b == (taskBudgetBody{}) {
		return nil
	}

	return &domain.Budget{MaxTokens: b.MaxTokens, MaxCost: b.MaxCost}
}

// TaskOptions are the fields that a creation and a change have in common; left out or
// null: the default, or as before. Null empties mode and network.
type TaskOptions struct {
	Timezone          *string           `json:"timezone,omitempty" nullable:"true" minLength:"1" maxLength:"100" doc:"IANA time zone of the expression; default: that of the system." example:"Europe/Berlin"`
	Enabled           *bool             `json:"enabled,omitempty" nullable:"true" doc:"Whether its ticks run; default true."`
	SkipConfirmations *bool             `json:"skip_confirmations,omitempty" nullable:"true" doc:"true: questions are left to the model and permission requests are granted, on record; default false: a run waits for answers."`
	Persistent        *bool             `json:"persistent,omitempty" nullable:"true" doc:"true: all runs use one session; default false: each has its own."`
	Overlap           *schedule.Overlap `json:"overlap,omitempty" nullable:"true" enum:"skip,buffer_one,buffer_all,cancel_other,allow_all" doc:"What becomes of a tick while an earlier run is not over; default skip."`
	CatchupWindowS    *int              `json:"catchup_window_s,omitempty" nullable:"true" minimum:"0" maximum:"2592000" doc:"Seconds for which a late tick still runs; default 3600." example:"3600"`
	PauseAfter        *int              `json:"pause_on_failure_after,omitempty" nullable:"true" minimum:"0" maximum:"1000" doc:"Failed runs in a row after which the task is disabled; default 5, 0: never." example:"5"`
	Files             []string          `json:"files,omitempty" nullable:"true" maxItems:"20" minLength:"1" maxLength:"1000" doc:"Patterns of files that must exist in the workspace after a run, as Glob takes them, or the run is failed." example:"[\"report/*.md\"]"`
	Commands          []string          `json:"commands,omitempty" nullable:"true" maxItems:"10" minLength:"1" maxLength:"10000" doc:"Commands that must end with exit code 0 after a run, in the sandbox of its session and within five minutes each, or the run is failed. They may run again after a crash." example:"[\"make test\"]"`
	JitterS           *int              `json:"jitter_s,omitempty" nullable:"true" minimum:"0" maximum:"3600" doc:"Up to how many seconds after its time a tick runs; default 0." example:"0"`

	Target        *target.Target                     `json:"target,omitempty" doc:"What each tick starts; default: the prompt, in a session. A PATCH to another kind removes what the old kind has configured."`
	SolutionID    *string                            `json:"solution_id,omitempty" nullable:"true" maxLength:"256" doc:"The solution of its sessions; empty: none."`
	BizRoleID     *string                            `json:"biz_role_id,omitempty" nullable:"true" maxLength:"256" doc:"The role of the solution; empty: none."`
	AgentID       *string                            `json:"agent_id,omitempty" nullable:"true" maxLength:"256" doc:"The production agent that its sessions are made of, which defines solution, role, mode, skills and environment; empty: none." example:"release-notes"`
	Mode          httpx.Nullable[domain.Mode]        `json:"mode,omitempty" nullable:"true" enum:"executing,planning" doc:"How the agent works; null: executing."`
	Skills        []string                           `json:"skills,omitempty" nullable:"true" maxItems:"50" minLength:"1" maxLength:"256" doc:"Skills that its sessions are offered first: the id of a list, org/name, or name." example:"[\"release-notes\"]"`
	EnvBuckets    []string                           `json:"env_buckets,omitempty" nullable:"true" maxItems:"20" minLength:"1" maxLength:"256" doc:"Environment buckets that reach its tools besides default and that of its solution." example:"[\"reports\"]"`
	Permissions   []schedule.PermissionRule          `json:"permissions,omitempty" nullable:"true" maxItems:"200" doc:"The first rule that matches a tool call decides; no rule: it is allowed."`
	Network       httpx.Nullable[domain.NetworkMode] `json:"network,omitempty" nullable:"true" enum:"none,rules,public" doc:"Narrows the network of its commands; null: as the service is configured."`
	MemoryEnabled *bool                              `json:"memory_enabled,omitempty" nullable:"true" doc:"Whether its sessions use memories; default false."`
	Inputs        map[string]string                  `json:"inputs,omitempty" nullable:"true" doc:"Values that the prompt uses as {{input.NAME}}." example:"{\"product\": \"Atlas\"}"`
}

func (o TaskOptions) apply(spec *schedule.TaskSpec) {
	if o.Target != nil {
		spec.Retarget(*o.Target)
	}

	fields.Set(&spec.Timezone, o.Timezone)
	fields.Set(&spec.Enabled, o.Enabled)
	fields.Set(&spec.SkipConfirmations, o.SkipConfirmations)
	fields.Set(&spec.Persistent, o.Persistent)
	fields.Set(&spec.Overlap, o.Overlap)
	fields.Set(&spec.CatchupWindowS, o.CatchupWindowS)
	fields.Set(&spec.PauseAfter, o.PauseAfter)
	fields.Set(&spec.JitterS, o.JitterS)

	fields.Set(&spec.MemoryEnabled, o.MemoryEnabled)
	o.applyNames(spec)

	if o.Files != nil {
		spec.Files = o.Files
	}

	if o.Commands != nil {
		spec.Commands = o.Commands
	}
}

// applyNames sets what an empty text or list empties.
func (o TaskOptions) applyNames(spec *schedule.TaskSpec) {
	for set, given := range map[**string]*string{&spec.SolutionID: o.SolutionID, &spec.BizRoleID: o.BizRoleID, &spec.AgentID: o.AgentID} {
		if given != nil {
			*set = fields.OrNil(given)
		}
	}

	if o.Mode.Present {
		spec.Mode = o.Mode.Value
	}

	if o.Network.Present {
		spec.Network = fields.Value(o.Network.Value)
	}

	if o.Skills != nil {
		spec.Skills = o.Skills
	}

	if o.EnvBuckets != nil {
		spec.EnvBuckets = o.EnvBuckets
	}

	if o.Permissions != nil {
		spec.Permissions = o.Permissions
	}

	if o.Inputs != nil {
		spec.Inputs = o.Inputs
	}
}

type newScheduledTask struct {
	Title  string `json:"title" minLength:"1" maxLength:"200" doc:"Its title." example:"Nightly report"`
	Prompt string `json:"prompt,omitempty" maxLength:"100000" doc:"The message that each run sends; the default description of the issues of a target of kind issue. Needed where the target starts a chat and has no prompt." example:"Write the report of yesterday."`
	Cron   string `json:"cron" minLength:"1" maxLength:"100" doc:"Five fields, or @hourly, @daily, @weekly, @monthly, @yearly." example:"30 2 * * *"`
	TaskOptions
	ExpiresAt      *time.Time                                       `json:"expires_at,omitempty" nullable:"true" doc:"No tick at or after this time." example:"2030-01-01T00:00:00Z"`
	Model          *string                                          `json:"model,omitempty" nullable:"true" maxLength:"200" doc:"The model of its sessions; null: the service's default."`
	WorkspaceID    *string                                          `json:"workspace_id,omitempty" nullable:"true" maxLength:"128" doc:"A production workspace of which the caller is a member; its members may read the task, its runs and its sessions. Null: none." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	Budget         httpx.Nullable[taskBudgetBody]                   `json:"budget,omitempty" nullable:"true" doc:"The budget of each session; null: unbounded."`
	Notify         *[]string                                        `json:"notify,omitempty" nullable:"true" maxItems:"10" doc:"Webhooks that are sent what becomes of its ticks and runs, and its questions, whatever events they list."`
	QuestionPolicy httpx.Nullable[sessiondetail.QuestionPolicyBody] `json:"question_policy,omitempty" nullable:"true" doc:"What becomes of questions that no user answers; null: they wait."`
	OutputSchema   map[string]any                                   `json:"output_schema,omitempty" nullable:"true" doc:"JSON Schema that the result of a run must follow, or the run is failed; implies headless." example:"{\"type\": \"object\"}"`
}

// scheduledTaskChange is the body of PATCH: what is left out stays, null empties a
// field that can be empty.
type scheduledTaskChange struct {
	Title  *string `json:"title,omitempty" nullable:"true" minLength:"1" maxLength:"200" doc:"Its title."`
	Prompt *string `json:"prompt,omitempty" nullable:"true" minLength:"1" maxLength:"100000" doc:"The message that each run sends."`
	Cron   *string `json:"cron,omitempty" nullable:"true" minLength:"1" maxLength:"100" doc:"Five fields, or @hourly, @daily, @weekly, @monthly, @yearly." example:"0 7 * * MON-FRI"`
	TaskOptions
	ExpiresAt      httpx.Nullable[time.Time]                        `json:"expires_at,omitempty" nullable:"true" doc:"No tick at or after this time; null: no end."`
	Model          httpx.Nullable[string]                           `json:"model,omitempty" nullable:"true" maxLength:"200" doc:"The model of its sessions; null: the service's default."`
	WorkspaceID    httpx.Nullable[string]                           `json:"workspace_id,omitempty" nullable:"true" maxLength:"128" doc:"A production workspace of which the caller is a member; its members may read the task, its runs and its sessions. Null: none." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	Budget         httpx.Nullable[taskBudgetBody]                   `json:"budget,omitempty" nullable:"true" doc:"The budget of each session; null: unbounded."`
	Notify         *[]string                                        `json:"notify,omitempty" nullable:"true" maxItems:"10" doc:"Webhooks that are sent what becomes of its ticks and runs, and its questions, whatever events they list."`
	QuestionPolicy httpx.Nullable[sessiondetail.QuestionPolicyBody] `json:"question_policy,omitempty" nullable:"true" doc:"What becomes of questions that no user answers; null: they wait."`
	OutputSchema   httpx.Nullable[map[string]any]                   `json:"output_schema,omitempty" nullable:"true" doc:"JSON Schema that the result of a run must follow; null: none."`
}

func (c scheduledTaskChange) apply(spec *schedule.TaskSpec) {
	fields.Set(&spec.Title, c.Title)
	fields.Set(&spec.Prompt, c.Prompt)
	fields.Set(&spec.Cron, c.Cron)
	c.TaskOptions.apply(spec)

	if c.ExpiresAt.Present {
		spec.ExpiresAt = c.ExpiresAt.Value
	}

	if c.Model.Present {
		spec.Model = fields.OrNil(c.Model.Value)
	}

	if c.WorkspaceID.Present {
		spec.WorkspaceID = fields.OrNil(c.WorkspaceID.Value)
	}

	if c.Budget.Present {
		spec.Budget = c.Budget.Value.budget()
	}

	if c.Notify != nil {
		spec.Notify = slices.Clone(*c.Notify)
	}

	if c.QuestionPolicy.Present {
		spec.QuestionPolicy = c.QuestionPolicy.Value.Domain()
	}

	if c.OutputSchema.Present {
		spec.OutputSchema = nil
		if c.OutputSchema.Value != nil {
			spec.OutputSchema = schemaOf(*c.OutputSchema.Value)
		}
	}
}

// schemaOf gives the text of a schema that was decoded from JSON; none: nil.
func schemaOf(schema map[string]any) json.RawMessage {
	if schema == nil {
		return nil
	}

	raw, _ := json.Marshal(schema) // of what was decoded

	return raw
}

// SchedulesAPI manages scheduled tasks.
type SchedulesAPI struct {
	Schedules *schedules.Service
}

const onTask = "scheduled_task_not_found"

// Codes of targets that the owner cannot start.
const (
	onTarget403 = "workspace_role_required"
	onTarget404 = "prod_solution_not_found version_not_found"
	onTarget422 = domain.CodeValidationFailed + " " + dagrun.CodeInvalidInputs
)

// Register adds the operations of the area to the interface.
func (a *SchedulesAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID:      "create-scheduled-task",
		Method:  fiber.MethodPost,
		Path:    "/api/scheduled-tasks",
		Tag:     "Scheduled tasks",
		Summary: "Create a scheduled task",
		Description: "Each tick of the cron expression starts the target: by default it sends the prompt to a session. The owner must " +
			"be allowed to use it now and at each tick. A local time that a clock change leaves out is due once, at the next minute " +
			"that exists; a repeated one is due once.",
		Scope:  auth.Schedules,
		Audit:  "scheduled_task.create",
		Status: fiber.StatusCreated,
		Errors: httpx.Codes{
			403: "biz_role_not_allowed " + onTarget403, 404: onWorkspace + " prod_agent_not_found " + onTarget404,
			409: "scheduled_task_limit dag_not_published", 413: "inputs_too_large",
			422: "invalid_cron invalid_timezone invalid_schema unknown_model solution_not_found " + onTarget422,
		},
		Example: `{"title": "Nightly report", "prompt": "Write the report of yesterday.", "cron": "30 2 * * *",
			"timezone": "Europe/Berlin"}`,
	}, a.create)
	httpx.Register(r, httpx.Operation{
		ID: "list-scheduled-tasks", Method: fiber.MethodGet, Path: "/api/scheduled-tasks", Tag: "Scheduled tasks",
		Summary: "List the caller's scheduled tasks, newest first",
		Description: "With workspace_id instead the tasks of that production workspace that the caller may see: those of its members, " +
			"if the caller is one, and the caller's own. At most 2,000 are given.",
		Scope: auth.Schedules,
	}, a.list)
	httpx.Register(r, httpx.Operation{
		ID: "get-schedule-calendar", Method: fiber.MethodGet, Path: "/api/scheduled-tasks/calendar", Tag: "Scheduled tasks",
		Summary: "List when the caller's scheduled tasks are due",
		Description: "Includes from and excludes to, which may be 366 days apart. At most 1,000 times of a task are given. A disabled " +
			"task has none.",
		Scope: auth.Schedules,
	}, a.calendar)
	httpx.Register(r, httpx.Operation{
		ID: "preview-schedule", Method: fiber.MethodGet, Path: "/api/scheduled-tasks/preview", Tag: "Scheduled tasks",
		Summary:     "Explain a cron expression and list its next times",
		Description: "Checks the expression and the time zone as a creation does, and creates nothing.",
		Scope:       auth.Schedules, Errors: httpx.Codes{422: "invalid_cron invalid_timezone"},
	}, a.preview)
	httpx.Register(r, httpx.Operation{
		ID: "get-scheduled-task", Method: fiber.MethodGet, Path: "/api/scheduled-tasks/{id}", Tag: "Scheduled tasks",
		Summary:     "Get a scheduled task",
		Description: "The caller's own, or one of a production workspace of which the caller and its owner are members.",
		Scope:       auth.Schedules, Errors: httpx.Codes{404: onTask},
	},
		func(ctx context.Context, in *ScheduledTaskRef) (*httpx.Body[schedule.Task], error) {
			return httpx.Answer(a.Schedules.Get(ctx, httpx.CallerOf(ctx).User.ID, in.ID))
		})
	httpx.Register(r, httpx.Operation{
		ID: "update-scheduled-task", Method: fiber.MethodPatch, Path: "/api/scheduled-tasks/{id}", Tag: "Scheduled tasks",
		Summary: "Update a scheduled task",
		Description: "Fields left out keep their values. After a change of cron, timezone, expires_at or enabled the coming ticks are " +
			"planned again from now on; else a tick that is due is kept. After a change of model, budget, workspace_id, persistent, " +
			"skip_confirmations or question_policy the next run begins a new session.",
		Scope: auth.Schedules, Audit: "scheduled_task.change",
		Errors: httpx.Codes{
			403: "forbidden biz_role_not_allowed " + onTarget403,
			404: onTask + " " + onWorkspace + " prod_agent_not_found " + onTarget404, 409: "dag_not_published",
			413: "inputs_too_large",
			422: "invalid_cron invalid_timezone invalid_schema unknown_model solution_not_found " + onTarget422,
		},
		Example: `{"cron": "0 7 * * MON-FRI"}`,
	}, a.update)
	httpx.Register(r, httpx.Operation{
		ID: "delete-scheduled-task", Method: fiber.MethodDelete, Path: "/api/scheduled-tasks/{id}", Tag: "Scheduled tasks",
		Summary:     "Delete a scheduled task and the records of its runs",
		Description: "Its sessions stay, and a run that works goes on in its session.",
		Scope:       auth.Schedules, Audit: "scheduled_task.delete", Status: fiber.StatusNoContent,
		Errors: httpx.Codes{403: "forbidden", 404: onTask},
	},
		func(ctx context.Context, in *ScheduledTaskRef) (*struct{}, error) {
			return nil, a.Schedules.Delete(ctx, httpx.CallerOf(ctx).User.ID, in.ID)
		})
	httpx.Register(r, httpx.Operation{
		ID: "start-scheduled-task", Method: fiber.MethodPost, Path: "/api/scheduled-tasks/{id}/start", Tag: "Scheduled tasks",
		Summary:     "Enable a scheduled task",
		Description: "The count of failures in a row starts at 0. Ticks that were due while it was disabled do not run.",
		Scope:       auth.Schedules, Audit: "scheduled_task.start", Errors: httpx.Codes{403: "forbidden", 404: onTask},
	}, a.enable(true))
	httpx.Register(r, httpx.Operation{
		ID: "stop-scheduled-task", Method: fiber.MethodPost, Path: "/api/scheduled-tasks/{id}/stop", Tag: "Scheduled tasks",
		Summary:     "Disable a scheduled task",
		Description: "A run that works goes on.",
		Scope:       auth.Schedules, Audit: "scheduled_task.stop", Errors: httpx.Codes{403: "forbidden", 404: onTask},
	}, a.enable(false))
	httpx.Register(r, httpx.Operation{
		ID: "run-scheduled-task", Method: fiber.MethodPost, Path: "/api/scheduled-tasks/{id}/run", Tag: "Scheduled tasks",
		Summary:     "Run a scheduled task now",
		Description: "The overlap policy holds: with skip and a run that is not over, the record says skipped. A disabled task runs too.",
		Scope:       auth.Schedules, Audit: "scheduled_task.run", Errors: httpx.Codes{403: "forbidden", 404: onTask},
	},
		func(ctx context.Context, in *ScheduledTaskRef) (*httpx.Body[schedule.Run], error) {
			return httpx.Answer(a.Schedules.RunNow(ctx, httpx.CallerOf(ctx).User.ID, in.ID))
		})
	httpx.Register(r, httpx.Operation{
		ID: "backfill-scheduled-task", Method: fiber.MethodPost, Path: "/api/scheduled-tasks/{id}/backfill", Tag: "Scheduled tasks",
		Summary: "Run past ticks of a scheduled task",
		Description: "Runs the ticks from one time to before another, one after the other, also if they ran before: their records are " +
			"those of the last run. A disabled task runs too.",
		Scope: auth.Schedules, Audit: "scheduled_task.backfill", Errors: httpx.Codes{403: "forbidden", 404: onTask},
		Example: `{"from": "2026-11-25T00:00:00Z", "to": "2026-11-26T00:00:00Z"}`,
	}, a.backfill)
	httpx.Register(r, httpx.Operation{
		ID: "list-scheduled-runs", Method: fiber.MethodGet, Path: "/api/scheduled-tasks/{id}/runs", Tag: "Scheduled tasks",
		Summary:     "List the runs of a scheduled task, newest first",
		Description: "Each tick has one record, also when nothing ran. The newest 10,000 are kept.",
		Scope:       auth.Schedules, Errors: httpx.Codes{404: onTask},
	}, a.runs)
}

func (a *SchedulesAPI) create(ctx context.Context, in *struct{ Body newScheduledTask }) (*httpx.Body[schedule.Task], error) {
	b := in.Body

	spec := schedule.TaskSpec{
		Title:          b.Title,
		Prompt:         b.Prompt,
		Cron:           b.Cron,
		Enabled:        true,
		ExpiresAt:      b.ExpiresAt,
		Model:          fields.OrNil(b.Model),
		WorkspaceID:    fields.OrNil(b.WorkspaceID),
		Overlap:        schedule.OverlapSkip,
		CatchupWindowS: 3600,
		PauseAfter:     5,
		Budget:         b.Budget.Value.budget(),
		OutputSchema:   schemaOf(b.OutputSchema),
	}
	if b.Notify != nil {
		spec.Notify = slices.Clone(*b.Notify)
	}

	spec.QuestionPolicy = b.QuestionPolicy.Value.Domain()
	b.apply(&spec)

	made, err := a.Schedules.Create(ctx, httpx.CallerOf(ctx).User.ID, spec)
	if err == nil {
		httpx.Concerns(ctx, made.ID, nil)
	}

	return httpx.Answer(made, err)
}

func (a *SchedulesAPI) list(ctx context.Context, in *struct {
	WorkspaceID string `query:"workspace_id" maxLength:"128" doc:"Only tasks of this production workspace." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
},
) (*httpx.Body[[]schedule.Task], error) {
	userID := httpx.CallerOf(ctx).User.ID
	if in.WorkspaceID != "" {
		tasks, err := a.Schedules.ListOf(ctx, userID, in.WorkspaceID)
		return httpx.Answer(fields.OrEmpty(tasks), err)
	}

	tasks, err := a.Schedules.List(ctx, userID)

	return httpx.Answer(fields.OrEmpty(tasks), err)
}

func (a *SchedulesAPI) update(ctx context.Context, in *struct {
	ScheduledTaskRef
	Body scheduledTaskChange
},
) (*httpx.Body[schedule.Task], error) {
	return httpx.Answer(a.Schedules.Change(ctx, httpx.CallerOf(ctx).User.ID, in.ID, in.Body.apply))
}

func (a *SchedulesAPI) enable(enabled bool) func(context.Context, *ScheduledTaskRef) (*httpx.Body[schedule.Task], error) {
	return func(ctx context.Context, in *ScheduledTaskRef) (*httpx.Body[schedule.Task], error) {
		return httpx.Answer(a.Schedules.SetEnabled(ctx, httpx.CallerOf(ctx).User.ID, in.ID, enabled))
	}
}

func (a *SchedulesAPI) calendar(ctx context.Context, in *struct {
	From time.Time `query:"from" required:"true" doc:"The first time." example:"2026-11-01T00:00:00Z"`
	To   time.Time `query:"to" required:"true" doc:"The end, which is not included." example:"2026-12-01T00:00:00Z"`
},
) (*httpx.Body[[]schedule.CalendarEntry], error) {
	entries, err := a.Schedules.Calendar(ctx, httpx.CallerOf(ctx).User.ID, in.From, in.To)
	return httpx.Answer(fields.OrEmpty(entries), err)
}

type backfillBody struct {
	From time.Time `json:"from" doc:"The first time." example:"2026-11-25T00:00:00Z"`
	To   time.Time `json:"to" doc:"The end, which is not included and not in the future." example:"2026-11-26T00:00:00Z"`
}

type backfilledBody struct {
	Runs int `json:"runs" doc:"How many ticks run; at most 100." example:"1"`
}

func (a *SchedulesAPI) backfill(ctx context.Context, in *struct {
	ScheduledTaskRef
	Body backfillBody
},
) (*httpx.Body[backfilledBody], error) {
	runs, err := a.Schedules.Backfill(ctx, httpx.CallerOf(ctx).User.ID, in.ID, in.Body.From, in.Body.To)
	return httpx.Answer(backfilledBody{Runs: runs}, err)
}

func (a *SchedulesAPI) preview(_ context.Context, in *struct {
	Cron     string `query:"cron" required:"true" minLength:"1" maxLength:"100" doc:"The cron expression." example:"30 2 * * *"`
	Timezone string `query:"timezone" maxLength:"100" doc:"IANA time zone of the expression; default: that of the system." example:"Europe/Berlin"`
	Count    int    `query:"count" default:"5" minimum:"1" maximum:"50" doc:"Number of times." example:"5"`
},
) (*httpx.Body[schedule.CronPreview], error) {
	return httpx.Answer(a.Schedules.Preview(in.Cron, in.Timezone, time.Now(), in.Count))
}

func (a *SchedulesAPI) runs(ctx context.Context, in *struct {
	ScheduledTaskRef
	Offset int `query:"offset" default:"0" minimum:"0" maximum:"1000000" doc:"Number of entries to skip." example:"0"`
	Limit  int `query:"limit" default:"1000" minimum:"1" maximum:"1000" doc:"Maximum number of entries." example:"20"`
},
) (*httpx.Body[[]schedule.Run], error) {
	runs, err := a.Schedules.History(ctx, httpx.CallerOf(ctx).User.ID, in.ID, in.Offset, in.Limit)
	return httpx.Answer(fields.OrEmpty(runs), err)
}
