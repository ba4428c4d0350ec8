package target

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
)

// SaveHeap writes the heap profile of the service into a file.
func (s *Server) SaveHeap(ctx context.Context, path string) (err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Addr[debugAddr]+"/debug/pprof/heap?gc=1", nil)
	if err != nil {
		return err
	}

	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()

	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("heap profile: %s", response.Status)
	}

	file, err := os.Create(path)
	if err != nil {
		return err
	}

	_, err = io.Copy(file, response.Body)

	return errors.Join(err, file.Close())
}

// LiveHeap collects garbage in the service, and gives the bytes that are still in use.
func (s *Server) LiveHeap(ctx context.Context) (int64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Addr[debugAddr]+"/debug/pprof/heap?gc=1&debug=1", nil)
	if err != nil {
		return 0, err
	}

	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()

	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)

	for lines.Scan() {
		if value, found := strings.CutPrefix(lines.Text(), "# HeapAlloc = "); found {
			return strconv.ParseInt(value, 10, 64)
		}
	}

	return 0, cmp.Or(lines.Err(), errors.New("the heap profile does not say how much is in use"))
}
