-- Roles of PostgreSQL for docker-compose.yml, none of them a superuser. roles.sh runs this
-- as the superuser in each database at every `docker compose up`, so that it also corrects
-- what a restore created. Passwords come as settings.
DO $roles$
DECLARE
	one       record;
	db_owner  text := CASE current_database() WHEN 'everloop' THEN 'everloop_app' ELSE 'everloop_temporal' END;
BEGIN
	FOR one IN SELECT 'everloop_' || name AS role, current_setting('everloop.' || name || '_password') AS password
		FROM unnest(ARRAY['app', 'identity', 'registry', 'temporal', 'backup']) AS name
	LOOP
		IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = one.role) THEN
			EXECUTE format('CREATE ROLE %I', one.role);
		END IF;

		EXECUTE format('ALTER ROLE %I LOGIN INHERIT NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD %L',
			one.role, one.password);
	END LOOP;

	FOR one IN SELECT format('REVOKE %I FROM %I', granted.rolname, member.rolname) AS statement
		FROM pg_auth_members m JOIN pg_roles granted ON granted.oid = m.roleid JOIN pg_roles member ON member.oid = m.member
		WHERE member.rolname IN ('everloop_app', 'everloop_identity', 'everloop_registry', 'everloop_temporal', 'everloop_backup')
	LOOP
		EXECUTE one.statement;
	END LOOP;

	-- A backup reads, and a restore creates, the schemas of these three.
	GRANT everloop_app, everloop_identity, everloop_registry TO everloop_backup;

	EXECUTE format('ALTER DATABASE %I OWNER TO %I', current_database(), db_owner);
	EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database());

	IF current_database() = 'everloop' THEN
		GRANT CONNECT ON DATABASE everloop TO everloop_identity, everloop_registry, everloop_temporal, everloop_backup;
		CREATE SCHEMA IF NOT EXISTS identity;
		CREATE SCHEMA IF NOT EXISTS registry;
	END IF;

	-- The owner of each schema owns its objects. Members of extensions stay; sequences and
	-- indexes of tables follow their tables.
	FOR one IN
		WITH member AS (SELECT classid, objid FROM pg_depend WHERE deptype = 'e'),
		schema AS (
			SELECT n.oid, nspname, nspowner, r.oid AS owner, r.rolname
			FROM pg_namespace n
			JOIN pg_roles r ON r.rolname = CASE
				WHEN current_database() = 'everloop' AND nspname IN ('identity', 'registry') THEN 'everloop_' || nspname
				ELSE db_owner END
			WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'
		)
		SELECT statement FROM (
			SELECT 1 AS step, s.oid, format('ALTER SCHEMA %I OWNER TO %I', nspname, rolname) AS statement
			FROM schema s WHERE nspname <> 'public' AND nspowner <> owner
			UNION ALL
			SELECT CASE c.relkind WHEN 'S' THEN 3 ELSE 2 END, c.oid,
				format('ALTER %s %s OWNER TO %I',
					CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END,
					c.oid::regclass, rolname)
			FROM pg_class c JOIN schema s ON s.oid = c.relnamespace
			WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S') AND c.relowner <> owner
				AND ('pg_class'::regclass, c.oid) NOT IN (SELECT classid, objid FROM member)
				AND NOT EXISTS (SELECT FROM pg_depend d
					WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND c.relkind = 'S'
						AND d.deptype IN ('a', 'i') AND d.refobjsubid > 0)
			UNION ALL
			SELECT 4, t.oid, format('ALTER TYPE %s OWNER TO %I', t.oid::regtype, rolname)
			FROM pg_type t JOIN schema s ON s.oid = t.typnamespace LEFT JOIN pg_class c ON c.oid = t.typrelid
			WHERE t.typowner <> owner AND (t.typtype IN ('e', 'd', 'r') OR (t.typtype = 'c' AND c.relkind = 'c'))
				AND ('pg_type'::regclass, t.oid) NOT IN (SELECT classid, objid FROM member)
			UNION ALL
			SELECT 5, f.oid, format('ALTER ROUTINE %s OWNER TO %I', f.oid::regprocedure, rolname)
			FROM pg_proc f JOIN schema s ON s.oid = f.pronamespace
			WHERE f.proowner <> owner AND ('pg_proc'::regclass, f.oid) NOT IN (SELECT classid, objid FROM member)
		) found ORDER BY step, oid
	LOOP
		EXECUTE one.statement;
	END LOOP;
END
$roles$;
