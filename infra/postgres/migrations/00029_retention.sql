-- +goose Up

-- What has to be found to be pruned; all but empty once it is.
CREATE INDEX inbox_content ON inbox (id) WHERE state <> 'queued' AND parts <> '[]';
CREATE INDEX compactions_work ON compactions (id) WHERE state <> 'running' AND work <> '{}';

-- +goose Down
SELECT 1;
