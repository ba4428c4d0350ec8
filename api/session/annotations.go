package session

import (
	"context"

	"github.com/gofiber/fiber/v2"

	"everloop/api/access"
	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
	"everloop/domain/annotation"
	"everloop/domain/production"
	"everloop/service/annotations"
)

// PayloadRef is the path of an operation on what annotations are on.
type PayloadRef struct {
	PayloadID string `path:"payload_id" minLength:"1" maxLength:"128" doc:"A turn, a tool call, a node of a DAG run (run_node_id), or a session, for its files." example:"01a1fd9b-4f0b-74a3-bdbc-594f816ae120"`
}

// AnnotationRef is the path of an operation on one annotation.
type AnnotationRef struct {
	PayloadRef
	AnnotationID string `path:"annotation_id" minLength:"1" maxLength:"128" doc:"The annotation." example:"01a1fd9b-4f0b-74a3-bdbc-594f816ae121"`
}

type newAnnotationBody struct {
	Kind   annotation.Kind    `json:"kind" enum:"rating,label,comment,correction,bookmark" doc:"A rating needs a number, a label labels, a comment and a correction a text." example:"comment"`
	Target *annotation.Target `json:"target,omitempty" doc:"The part that it is on; left out: the whole. Its path is required where the payload is a session."`
	Value  any                `json:"value,omitempty" doc:"A number, or a text of at most 1000 characters."`
	Text   *string            `json:"text,omitempty" nullable:"true" maxLength:"10000" doc:"The text." example:"This step could have used the cache."`
	Labels []string           `json:"labels,omitempty" nullable:"true" maxItems:"50" maxLength:"100" minLength:"1" doc:"The labels."`
}

type annotationChangeBody struct {
	Value    httpx.Nullable[any]    `json:"value,omitempty" doc:"A number, or a text of at most 1000 characters; null: none."`
	Text     httpx.Nullable[string] `json:"text,omitempty" nullable:"true" maxLength:"10000" doc:"The text; null: none."`
	Labels   []string               `json:"labels,omitempty" nullable:"false" maxItems:"50" maxLength:"100" minLength:"1" doc:"The labels; they replace those that it has."`
	Resolved *bool                  `json:"resolved,omitempty" nullable:"false" doc:"Whether it is resolved." example:"true"`
}

type annotationPage struct {
	Items []annotation.Annotation `json:"items" nullable:"false" doc:"The entries of this page."`
	Total int                     `json:"total" doc:"Total number of entries." example:"1"`
}

// AnnotationsAPI manages annotations. Who may read a session or a production solution may
// annotate it.
type AnnotationsAPI struct {
	access.Sessions
	Annotations *annotations.Store
	// ProdSolution returns prod_solution_not_found for a solution that the caller may not see.
	ProdSolution func(ctx context.Context, caller domain.User, id string) (production.Solution, error)
}

// Register adds the operations of the area to the interface.
func (a *AnnotationsAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "list-annotations", Method: fiber.MethodGet, Path: "/api/payloads/{payload_id}/annotations", Tag: "Annotations",
		Summary: "List the annotations of a turn, a tool call, a node of a DAG run or a session's files, oldest first",
		Scope:   auth.SessionsRead,
		Errors:  httpx.Codes{404: "payload_not_found"},
	}, a.list)
	httpx.Register(r, httpx.Operation{
		ID: "create-annotation", Method: fiber.MethodPost, Path: "/api/payloads/{payload_id}/annotations", Tag: "Annotations",
		Summary: "Create an annotation",
		Description: "Users who may read the session, or the production solution of a node, may annotate it. For a node a restricted " +
			"key needs the scope solutions, too.",
		Scope:   auth.SessionsWrite,
		Errors:  httpx.Codes{404: "payload_not_found", 409: "too_many_annotations"},
		Example: `{"kind": "comment", "target": {"block_index": 0}, "text": "This step could have used the cache."}`,
	}, a.create)
	httpx.Register(r, httpx.Operation{
		ID:      "update-annotation",
		Method:  fiber.MethodPatch,
		Path:    "/api/payloads/{payload_id}/annotations/{annotation_id}",
		Tag:     "Annotations",
		Summary: "Update an annotation, or resolve it",
		Description: "Value, text and labels are the author's to change; the owner of the session or production solution and " +
			"administrators may resolve it, too.",
		Scope:   auth.SessionsWrite,
		Errors:  httpx.Codes{403: "not_the_author", 404: "payload_not_found annotation_not_found"},
		Example: `{"resolved": true}`,
	}, a.update)
	httpx.Register(r, httpx.Operation{
		ID:      "delete-annotation",
		Method:  fiber.MethodDelete,
		Path:    "/api/payloads/{payload_id}/annotations/{annotation_id}",
		Tag:     "Annotations",
		Summary: "Delete an annotation",
		Scope:   auth.SessionsWrite,
		Audit:   "annotation.delete",
		Errors:  httpx.Codes{403: "not_the_author", 404: "payload_not_found annotation_not_found"},
	}, a.delete)
}

// payload finds what is annotated, if the caller may see its session or its production
// solution.
func (a *AnnotationsAPI) payload(ctx context.Context, id string) (annotation.Payload, domain.ViewerRole, error) {
	payload, err := a.Annotations.AnnotationPayload(ctx, id)
	if err != nil {
		return payload, "", err
	}

	if payload.SolutionID != "" {
		role, err := a.solutionRole(ctx, payload.SolutionID)
		if domain.HasCode(err, production.CodeNotFound) {
			err = annotation.PayloadNotFound(id)
		}

		return payload, role, err
	}

	_, role, err := a.Readable(ctx, payload.SessionID)
	if domain.HasCode(err, domain.CodeSessionNotFound) {
		err = annotation.PayloadNotFound(id)
	}

	return payload, role, err
}

// solutionRole finds out what the caller is to a production solution. A look by an
// administrator's privilege is audited before the answer.
func (a *AnnotationsAPI) solutionRole(ctx context.Context, id string) (domain.ViewerRole, error) {
	caller := httpx.CallerOf(ctx)
	if err := auth.Check(caller, auth.Solutions); err != nil {
		return "", err
	}

	found, err := a.ProdSolution(ctx, caller.User, id)
	if err != nil || found.OwnerID == caller.User.ID {
		return domain.ViewerOwner, err
	}

	request := httpx.RequestOf(ctx)
	details := map[string]string{"edge": string(auth.EdgeREST), "route": request.Route, "request_id": request.ID}

	return domain.ViewerAdmin, a.Auditor.Write(ctx, caller.User.ID, "prod_solution.access", id, details)
}

func (a *AnnotationsAPI) list(ctx context.Context, in *struct {
	PayloadRef
	Offset int `query:"offset" default:"0" minimum:"0" doc:"Number of entries to skip." example:"0"`
	Limit  int `query:"limit" default:"1000" minimum:"1" maximum:"1000" doc:"Maximum number of entries." example:"100"`
},
) (*httpx.Body[annotationPage], error) {
	if _, _, err := a.payload(ctx, in.PayloadID); err != nil {
		return nil, err
	}

	page, total, err := a.Annotations.Annotations(ctx, in.PayloadID, in.Offset, in.Limit)

	return httpx.Answer(annotationPage{fields.OrEmpty(page), total}, err)
}

func (a *AnnotationsAPI) create(ctx context.Context, in *struct {
	PayloadRef
	Body newAnnotationBody
},
) (*httpx.Body[annotation.Annotation], error) {
	payload, _, err := a.payload(ctx, in.PayloadID)
	if err != nil {
		return nil, err
	}

	made := annotation.NewAnnotation{
		Kind:   in.Body.Kind,
		Target: in.Body.Target,
		Value:  cleanAnnotationValue(in.Body.Value),
		Text:   cleanText(in.Body.Text),
		Labels: fields.CleanTexts(in.Body.Labels),
	}
	if err := made.Check(payload); err != nil {
		return nil, err
	}

	if err := a.Annotations.CheckAnnotationTarget(ctx, payload, made.Target); err != nil {
		return nil, err
	}

	return httpx.Answer(a.Annotations.CreateAnnotation(ctx, payload, httpx.CallerOf(ctx).User.ID, made))
}

func (a *AnnotationsAPI) update(ctx context.Context, in *struct {
	AnnotationRef
	Body annotationChangeBody
},
) (*httpx.Body[annotation.Annotation], error) {
	_, role, err := a.payload(ctx, in.PayloadID)
	if err != nil {
		return nil, err
	}

	found, err := a.Annotations.Annotation(ctx, in.PayloadID, in.AnnotationID)
	if err != nil {
		return nil, err
	}

	change := annotation.Change{
		SetValue: in.Body.Value.Present, SetText: in.Body.Text.Present, Text: cleanText(in.Body.Text.Value), Resolved: in.Body.Resolved,
	}
	if in.Body.Value.Value != nil {
		change.Value = cleanAnnotationValue(*in.Body.Value.Value)
	}

	if in.Body.Labels != nil {
		change.Labels = fields.CleanTexts(in.Body.Labels)
	}

	if err := mayChange(ctx, found, role, change.ChangesContent()); err != nil {
		return nil, err
	}

	if err := checkChanged(found, change); err != nil {
		return nil, err
	}

	return httpx.Answer(a.Annotations.ChangeAnnotation(ctx, in.PayloadID, in.AnnotationID, change))
}

// checkChanged holds what the annotation would be to its kind.
func checkChanged(a annotation.Annotation, change annotation.Change) error {
	if change.SetValue {
		a.Value = change.Value
	}

	if change.SetText {
		a.Text = change.Text
	}

	if change.Labels != nil {
		a.Labels = change.Labels
	}

	if err := annotation.CheckValue(a.Value); err != nil {
		return err
	}

	return annotation.CheckKind(a.Kind, a.Value, a.Text, a.Labels)
}

func (a *AnnotationsAPI) delete(ctx context.Context, in *AnnotationRef) (*struct{}, error) {
	_, role, err := a.payload(ctx, in.PayloadID)
	if err != nil {
		return nil, err
	}

	found, err := a.Annotations.Annotation(ctx, in.PayloadID, in.AnnotationID)
	if err != nil {
		return nil, err
	}

	if err := mayChange(ctx, found, role, false); err != nil {
		return nil, err
	}

	httpx.Concerns(ctx, found.ID, map[string]string{"payload_id": found.PayloadID})

	return nil, a.Annotations.DeleteAnnotation(ctx, in.PayloadID, in.AnnotationID)
}

// mayChange refuses what only the author may do, or only they and who the session
// belongs to.
func mayChange(ctx context.Context, found annotation.Annotation, role domain.ViewerRole, content bool) error {
	if found.AuthorID == httpx.CallerOf(ctx).User.ID || !content && role != domain.ViewerViewer {
		return nil
	}

	return domain.Newf(domain.Forbidden, "not_the_author", "only the author may do this to annotation %s", found.ID)
}

func cleanText(text *string) *string {
	if text == nil {
		return nil
	}

	clean := domain.CleanText(*text)

	return &clean
}

func cleanAnnotationValue(value any) any {
	if text, ok := value.(string); ok {
		return domain.CleanText(text)
	}

	return value
}
