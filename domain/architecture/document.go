// Package architecture is the document of a production solution's architecture: its
// components and their links, its validation, and the difference of two versions.
// Everything is a pure function of the document.
package architecture

import (
	"fmt"

	"everloop/domain"
	"everloop/domain/document"
)

// Document is the architecture of a production solution. Fields that it does not declare, such
// as fields that drawing libraries add, are ignored.
type Document struct {
	Nodes    []Component        `json:"nodes" nullable:"false" maxItems:"1000" doc:"The components."`
	Viewport *document.Viewport `json:"viewport,omitempty" doc:"The part of the drawing that is shown."`
}

// Component is a node of the architecture.
type Component struct {
	ID          string             `json:"id" minLength:"1" maxLength:"64" doc:"Its id." example:"orders"`
	Type        string             `json:"type" enum:"service,agent,data_store,queue,gateway,user,external,group" doc:"The type."`
	Name        string             `json:"name,omitempty" maxLength:"200" doc:"Its name." example:"Orders"`
	Description string             `json:"description,omitempty" maxLength:"20000" doc:"The description."`
	Position    *document.Position `json:"position,omitempty" doc:"Its place on the drawing."`
	Size        *Extent            `json:"size,omitempty" doc:"Its size on the drawing."`
	ParentID    string             `json:"parent_id,omitempty" maxLength:"64" doc:"The component that holds it; left out: none." example:"backend"`
	Technology  string             `json:"technology,omitempty" maxLength:"200" doc:"The technology." example:"PostgreSQL"`
	Owner       string             `json:"owner,omitempty" maxLength:"200" doc:"Who is responsible." example:"Team A"`
	Links       []Link             `json:"links,omitzero" nullable:"true" maxItems:"200" doc:"What it is linked to."`
	Tags        []string           `json:"tags,omitzero" nullable:"true" maxItems:"50" doc:"Tags."`
	Refs        []ElementRef       `json:"refs,omitzero" nullable:"true" maxItems:"200" doc:"What it stands for elsewhere."`
}

// Extent is a size on the drawing.
type Extent struct {
	Width  float64 `json:"width" minimum:"0" doc:"Width." example:"200"`
	Height float64 `json:"height" minimum:"0" doc:"Height." example:"80"`
}

// Link connects a component to another one.
type Link struct {
	TargetID  string `json:"target_id" minLength:"1" maxLength:"64" doc:"The component that it leads to." example:"orders_db"`
	Label     string `json:"label,omitempty" maxLength:"200" doc:"The label." example:"reads"`
	Protocol  string `json:"protocol,omitempty" maxLength:"64" doc:"The protocol." example:"SQL"`
	Direction string `json:"direction,omitempty" maxLength:"32" doc:"The direction: out, in or both." example:"out"`
}

// ElementRef names the element that a component represents.
type ElementRef struct {
	Kind string `json:"kind" enum:"dag_node,agent,issue,file" doc:"The kind."`
	ID   string `json:"id" minLength:"1" maxLength:"512" doc:"Its id, or its path." example:"review"`
}

// Encode returns the canonical form, in which components have no empty lists.
func (d Document) Encode() ([]byte, error) {
	d.Nodes = append([]Component{}, d.Nodes...)
	for i := range d.Nodes {
		c := &d.Nodes[i]
		c.Links, c.Tags, c.Refs = document.NoEmpty(c.Links), document.NoEmpty(c.Tags), document.NoEmpty(c.Refs)
	}

	return document.Encode(d)
}

// Listed returns the document for an answer, in which every list is present.
func (d Document) Listed() Document {
	d.Nodes = append([]Component{}, d.Nodes...)
	for i := range d.Nodes {
		c := &d.Nodes[i]
		c.Links, c.Tags, c.Refs = document.List(c.Links), document.List(c.Tags), document.List(c.Refs)
	}

	return d
}

// Counts returns the numbers of components and links.
func (d Document) Counts() (nodes, edges int) {
	for _, c := range d.Nodes {
		edges += len(c.Links)
	}

	return len(d.Nodes), edges
}

// Difference contains the differences between two documents.
type Difference struct {
	Nodes document.Difference[Component] `json:"nodes" doc:"The components."`
}

// Compare returns the differences between two documents.
func Compare(from, to Document) (d Difference, err error) {
	d.Nodes, err = document.Compare(from.Nodes, to.Nodes, func(c Component) string { return c.ID })
	return d, err
}

// The codes of findings.
const (
	CodeDuplicateID  = "duplicate_id"
	CodeDanglingLink = "dangling_link"
	CodeParentCycle  = "parent_cycle"
)

// Validate returns all findings that prevent a document from being published.
func Validate(d Document) domain.Validation {
	result := domain.Validation{Errors: []domain.Finding{}, Warnings: []domain.Finding{}}
	fail := func(code, id, path, format string, args ...any) {
		result.Errors = append(result.Errors, domain.Finding{Code: code, Message: fmt.Sprintf(format, args...), NodeID: id, Path: path})
	}

	parents := map[string]string{}
	for i, c := range d.Nodes {
		if _, exists := parents[c.ID]; exists {
			fail(CodeDuplicateID, c.ID, fmt.Sprintf("nodes[%d].id", i), "another component has the id %s already", c.ID)
			continue
		}

		parents[c.ID] = c.ParentID
	}

	inCycle := cycleMembers(parents)

	for i, c := range d.Nodes {
		for k, link := range c.Links {
			if _, exists := parents[link.TargetID]; !exists {
				fail(CodeDanglingLink, c.ID, fmt.Sprintf("nodes[%d].links[%d].target_id", i, k),
					"the link leads to component %s, which does not exist", link.TargetID)
			}
		}

		at := fmt.Sprintf("nodes[%d].parent_id", i)
		if _, exists := parents[c.ParentID]; c.ParentID != "" && !exists {
			fail(CodeDanglingLink, c.ID, at, "the parent %s does not exist", c.ParentID)
		}

		if inCycle[c.ID] && parents[c.ID] == c.ParentID {
			fail(CodeParentCycle, c.ID, at, "component %s is within itself by way of its parents", c.ID)
		}
	}

	result.Valid = len(result.Errors) == 0

	return result
}

// cycleMembers returns the ids on a cycle of parent links. Every id is visited once.
func cycleMembers(parents map[string]string) map[string]bool {
	members, walk := map[string]bool{}, map[string]int{}

	number := 0
	for id := range parents {
		number++

		at := id
		for walk[at] == 0 {
			parent, exists := parents[at]
			if !exists {
				break
			}

			walk[at] = number
			at = parent
		}

		if walk[at] != number {
			continue // reached a root, or an id of an earlier walk
		}

		for !members[at] {
			members[at] = true
			at = parents[at]
		}
	}

	return members
}
