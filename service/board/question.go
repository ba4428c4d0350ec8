package board

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"everloop/domain"
	"everloop/domain/board"
)

// maxAsked bounds the questions of one run that a comment may answer.
const maxAsked = 100

// answerIn posts the open questions of a run as comments, and answers the questions that a member
// commented on.
func (s *Service) answerIn(ctx context.Context, runID string) error {
	asked, err := s.AskedInRuns(ctx, runID, "", maxAsked)
	for _, question := range asked {
		if err != nil {
			return err
		}

		err = s.Settle(ctx, question)
	}

	return err
}

// Settle posts an open question as a comment, or takes a member's comment as its answer. No
// comment grants a permission: the session's owner grants it in their inbox.
func (s *Service) Settle(ctx context.Context, question board.AskedInRun) error {
	var asked []askedQuestion
	if err := json.Unmarshal(question.Questions, &asked); err != nil {
		return fmt.Errorf("read the question of an issue run: %w", err)
	}

	switch {
	case !question.Posted:
		return s.PostQuestion(ctx, question.RunID, question.QuestionID, textOf(asked, question.Permission))
	case question.Permission || question.CommentID == "":
		return nil
	}

	_, err := s.deps.Chats.Answer(ctx, caller(question.OwnerID), question.SessionID, answerOf(question.ToolCallID, asked, question.Answer))
	if err != nil && domain.AsError(err).Retryable() {
		return err
	}
	// The chat rejected the comment as an answer: do not retry it, the next one may be valid.
	return s.AnswerTaken(ctx, question.RunID, question.QuestionID, question.CommentID)
}

// askedQuestion is one question of a call of AskUserQuestion.
type askedQuestion struct {
	Question string `json:"question"`
	Options  []struct {
		Label       string `json:"label"`
		Description string `json:"description"`
	} `json:"options"`
}

// textOf returns the comment that asks the questions.
func textOf(asked []askedQuestion, permission bool) string {
	var lines []string

	for _, q := range asked {
		question := q.Question
		if permission {
			question = fenced(question)
		}

		lines = append(lines, question)

		for _, option := range q.Options {
			line := "- " + option.Label
			if option.Description != "" {
				line += ": " + option.Description
			}

			lines = append(lines, line)
		}

		lines = append(lines, "")
	}

	if permission {
		lines = append(lines, "The owner of the agent answers this in their inbox.")
	} else {
		lines = append(lines, "The next comment is the answer.")
	}

	return domain.FirstRunes(strings.Join(lines, "\n"), board.MaxRunReport)
}

// fenced puts the call that a question for permission shows, all but its first line, into a
// code block, where blanks count and no text is markup.
func fenced(question string) string {
	title, call, ok := strings.Cut(question, "\n\n")
	if !ok {
		return question
	}

	fence := "```"
	for strings.Contains(call, fence) {
		fence += "`"
	}

	return title + "\n\n" + fence + "\n" + call + "\n" + fence
}

// answerOf takes a comment as the answer to each question: the option that it names, else
// its text.
func answerOf(toolCallID string, asked []askedQuestion, text string) domain.Answer {
	answer := domain.Answer{ToolCallID: toolCallID, Selections: map[string][]int{}, Custom: map[string]string{}}

	for i, q := range asked {
		key := strconv.Itoa(i)

		answer.Custom[key] = text
		for n, option := range q.Options {
			if strings.EqualFold(strings.TrimSpace(text), strings.TrimSpace(option.Label)) {
				delete(answer.Custom, key)
				answer.Selections[key] = []int{n}
			}
		}
	}

	return answer
}
