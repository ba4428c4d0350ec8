-- +goose Up

-- Production solutions. The sessions may have been deleted since: no foreign keys.
CREATE TABLE prod_solutions (
    id                   text PRIMARY KEY,
    owner_id             text NOT NULL REFERENCES users (id),
    name                 text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    description          text NOT NULL DEFAULT '' CHECK (length(description) <= 20000),
    status               text NOT NULL DEFAULT 'draft' CHECK (status IN ('draft', 'published', 'archived')),
    main_session         text,
    flow_session         text,
    architecture_session text,
    document_bytes       bigint NOT NULL DEFAULT 0, -- of all versions of its documents
    created_at           timestamptz NOT NULL DEFAULT now(),
    updated_at           timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX prod_solutions_owner ON prod_solutions (owner_id, id);

-- Which versions of a document are in effect. latest is never given twice, also after
-- its version was deleted.
CREATE TABLE prod_documents (
    solution_id text NOT NULL REFERENCES prod_solutions (id) ON DELETE CASCADE,
    kind        text NOT NULL CHECK (kind IN ('dag', 'architecture')),
    latest      integer NOT NULL,
    published   integer,
    PRIMARY KEY (solution_id, kind)
);

-- Versions never change. The content is JSON in its canonical form.
CREATE TABLE prod_document_versions (
    solution_id text NOT NULL,
    kind        text NOT NULL,
    version     integer NOT NULL CHECK (version > 0),
    content     text NOT NULL,
    digest      text NOT NULL,
    message     text NOT NULL DEFAULT '',
    node_count  integer NOT NULL,
    edge_count  integer NOT NULL,
    created_by  text NOT NULL REFERENCES users (id),
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (solution_id, kind, version),
    FOREIGN KEY (solution_id, kind) REFERENCES prod_documents (solution_id, kind) ON DELETE CASCADE
);

-- +goose Down
SELECT 1;
