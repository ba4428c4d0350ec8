package history

import "everloop/domain"

// Stretch is the part of a branch, up to a sequence, that another branch shows.
type Stretch struct {
	BranchID domain.BranchID `json:"branch_id"`
	UpTo     int64           `json:"upto"`
}

// Path is everything that a branch shows: the stretches of its ancestor branches, the oldest
// first, and its own last. A sequence belongs to exactly one stretch.
type Path []Stretch

// Until returns the part of a path below a sequence.
func (p Path) Until(sequence int64) Path {
	cut := Path{}

	from := int64(0)
	for _, s := range p {
		if from >= sequence {
			break
		}

		if upto := min(s.UpTo, sequence); upto > from {
			cut = append(cut, Stretch{s.BranchID, upto})
		}

		from = s.UpTo
	}

	return cut
}

// Shows reports whether a path shows the entry at a sequence of a branch.
func (p Path) Shows(branchID domain.BranchID, sequence int64) bool {
	from := int64(0)

	for _, s := range p {
		if s.BranchID == branchID {
			return sequence >= from && sequence < s.UpTo
		}

		from = s.UpTo
	}

	return false
}

// Reaches reports whether a path includes the entries before a sequence of a branch.
func (p Path) Reaches(branchID domain.BranchID, sequence int64) bool {
	for _, s := range p {
		if s.BranchID == branchID {
			return sequence <= s.UpTo
		}
	}

	return false
}

// Common returns the sequence below which two paths show the same entries.
func Common(a, b Path) int64 {
	same := int64(0)
	for i := 0; i < len(a) && i < len(b) && a[i].BranchID == b[i].BranchID; i++ {
		same = min(a[i].UpTo, b[i].UpTo)
		if a[i].UpTo != b[i].UpTo {
			break
		}
	}

	return same
}
