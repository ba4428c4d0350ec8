package schedules

import (
	"context"
	"slices"
	"time"

	"everloop/domain"
	"everloop/domain/cron"
	"everloop/domain/schedule"
)

// Bounds of a calendar.
const (
	maxRange       = 366 * 24 * time.Hour
	maxOccurrences = 1000 // of one task
)

// Calendar returns when the tasks of a user are due, from one time and before another. A
// disabled task is due never.
func (s *Service) Calendar(ctx context.Context, ownerID string, from, to time.Time) ([]schedule.CalendarEntry, error) {
	switch {
	case !from.Before(to):
		return nil, domain.Invalidf("query.to", "is not after from")
	case to.Sub(from) > maxRange:
		return nil, domain.Invalidf("query.to", "is more than 366 days after from")
	}

	tasks, err := s.cfg.Store.ScheduledTasks(ctx, ownerID)
	if err != nil {
		return nil, err
	}

	entries := make([]schedule.CalendarEntry, len(tasks))
	for i, task := range tasks {
		entries[i] = schedule.CalendarEntry{TaskID: task.ID, Title: task.Title, Occurrences: []time.Time{}}
		if !task.Enabled {
			continue
		}

		if err := s.due(ctx, task, from, to, &entries[i]); err != nil {
			return nil, err
		}
	}

	return entries, nil
}

// due adds the times at which a task is due.
func (s *Service) due(ctx context.Context, task schedule.Task, from, to time.Time, entry *schedule.CalendarEntry) error {
	if task.CronText == "" { // its times were edited in Temporal
		return s.matching(ctx, task, from, to, entry)
	}

	return occurrences(task, from, to, entry)
}

// Backfill runs the past ticks of a user's own task from one time and before another, and
// returns their number.
func (s *Service) Backfill(ctx context.Context, ownerID, id string, from, to time.Time) (int, error) {
	task, err := s.cfg.Store.ScheduledTask(ctx, ownerID, id)

	switch {
	case err != nil:
		return 0, err
	case task.OwnerID != ownerID:
		return 0, schedule.NotOwnerOfTask()
	case !from.Before(to):
		return 0, domain.Invalidf("body.to", "must be after from")
	case to.After(time.Now()):
		return 0, domain.Invalidf("body.to", "must not be in the future")
	case to.Sub(from) > maxRange:
		return 0, domain.Invalidf("body.to", "must be at most 366 days after from")
	}

	var found schedule.CalendarEntry
	if err := s.due(ctx, task, from, to, &found); err != nil || len(found.Occurrences) == 0 {
		return 0, err
	}

	if len(found.Occurrences) > schedule.MaxOpenRuns {
		return 0, domain.Invalidf("body.to", "must include at most %d ticks", schedule.MaxOpenRuns)
	}

	return len(found.Occurrences), s.cfg.Engine.BackfillSchedule(ctx, id, from, to.Add(-time.Nanosecond))
}

// matching adds the times of a Schedule that was edited in Temporal.
func (s *Service) matching(ctx context.Context, task schedule.Task, from, to time.Time, entry *schedule.CalendarEntry) error {
	times, err := s.cfg.Engine.MatchingTimes(ctx, task.ID, from.Add(-time.Nanosecond), to.Add(-time.Nanosecond))
	if len(times) > 0 {
		entry.Occurrences, entry.Truncated = times, len(times) == maxOccurrences
	}

	return err
}

// Preview returns what a cron expression means, and the next times at which it is due after
// a time; fewer than count when it is due no more often.
func (s *Service) Preview(expression, timezone string, after time.Time, count int) (schedule.CronPreview, error) {
	parsed, err := parseCron("query.cron", expression)
	if err != nil {
		return schedule.CronPreview{}, err
	}

	name, err := checkZone("query.timezone", timezone)
	if err != nil {
		return schedule.CronPreview{}, err
	}

	zone, err := time.LoadLocation(name)
	if err != nil {
		return schedule.CronPreview{}, err
	}

	preview := schedule.CronPreview{
		CronText: parsed.String(), Timezone: name, Occurrences: make([]time.Time, 0, count), ClockChanges: []schedule.ClockChange{},
	}

	for at := after; len(preview.Occurrences) < count; {
		next, ok := parsed.Next(at, zone)
		if !ok {
			break
		}

		preview.Occurrences = append(preview.Occurrences, next.UTC())
		at = next

		if change, found := parsed.ChangeOn(next, zone); found {
			preview.ClockChanges = append(preview.ClockChanges, clockChange(change))
		}
	}

	preview.ClockChanges = slices.Compact(preview.ClockChanges) // a day has several times

	return preview, nil
}

func clockChange(c cron.ClockChange) schedule.ClockChange {
	const clock = "15:04"

	change := schedule.ClockChange{
		Date: c.Day.Format(time.DateOnly), Kind: "left_out", From: c.From.Format(clock), To: c.To.Format(clock),
	}
	if c.Repeated {
		change.Kind = "repeated"
	}

	return change
}

func occurrences(task schedule.Task, from, to time.Time, entry *schedule.CalendarEntry) error {
	parsed, err := cron.Parse(task.Cron)
	if err != nil {
		return err
	}

	zone, err := time.LoadLocation(task.Timezone)
	if err != nil {
		return err
	}

	if task.ExpiresAt != nil && task.ExpiresAt.Before(to) {
		to = *task.ExpiresAt
	}

	for at := from.Add(-time.Nanosecond); ; {
		next, ok := parsed.Next(at, zone)
		if !ok || !next.Before(to) {
			return nil
		}

		if len(entry.Occurrences) == maxOccurrences {
			entry.Truncated = true
			return nil
		}

		entry.Occurrences = append(entry.Occurrences, next.UTC())
		at = next
	}
}
