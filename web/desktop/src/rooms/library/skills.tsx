import { useQuery } from '@tanstack/react-query';
import type { Schemas } from '@everloop/sdk';
import { Download, Info, RefreshCw, Search, Sparkles, Upload } from 'lucide-react';
import { useDeferredValue, useRef, useState } from 'react';
import { bytes, counted, dateTime } from '../../lib/format';
import { api, useAction } from '../../lib/query';
import { Button, IconButton } from '../../ui/button';
import { Dialog, FormDialog } from '../../ui/dialog';
import { Check, Field, Input, Select } from '../../ui/field';
import { Prose } from '../../ui/markdown';
import { Badge, Empty, Loaded } from '../../ui/page';
import { Facts, Row, Rows, Section } from '../../ui/rows';
import { readPackage } from './package';
import { SessionChoice } from './session-choice';

type Skill = Schemas['SkillItem'];
interface Wanted { org: string; name: string; version?: string | undefined }

const sources: Record<Skill['source'], string> = { builtin: 'of the service', registry: 'from the registry', uploaded: 'uploaded', partner: 'by the operator' };
const refresh = [['skills']] as const;

export function Skills() {
  const [session, setSession] = useState('');
  const [added, setAdded] = useState(false);
  const skills = useQuery({
    queryKey: ['skills', session || (added ? 'installed' : 'all')],
    queryFn: ({ signal }) => (session ? api().listSessionSkills(session, { signal }) : added ? api().listInstalledSkills({ signal }) : api().listSkills({ signal })),
  });
  const [shown, setShown] = useState<string>();
  const [wanted, setWanted] = useState<Wanted>();
  const [uploading, setUploading] = useState(false);
  const resync = useAction(() => api().resyncSkills(session), { done: (result) => result.detail, refresh });
  return (
    <>
      <Section
        title="Your skills" note="Instructions that an agent loads when a task fits them."
        actions={<Button look="primary" onClick={() => setUploading(true)}><Upload size={15} aria-hidden />Upload a skill</Button>}
      >
        <div className="mb-3 flex flex-wrap items-end gap-x-4 gap-y-2">
          <div className="w-72 max-w-full"><SessionChoice label="Of" value={session} change={setSession} empty="all your sessions" /></div>
          {session ? <Button busy={resync.isPending} onClick={() => resync.mutate()}><RefreshCw size={15} aria-hidden />Read the packages again</Button>
            : <Check className="pb-1.5" label="Only those that were added" checked={added} onChange={(event) => setAdded(event.target.checked)} />}
        </div>
        <Loaded query={skills} isEmpty={(data) => data.items.length === 0} empty={<Empty icon={<Sparkles size={28} />} title="Nothing was added">Find a skill in the registry below, or upload one.</Empty>}>
          {({ items }) => (
            <Rows label="Skills">
              {items.map((skill) => {
                const { org } = skill;
                return (
                  <Row
                    key={skill.id} title={skill.name}
                    badges={<>{skill.version && <Badge>{skill.version}</Badge>}<Badge>{sources[skill.source]}</Badge>{!skill.enabled && <Badge tone="bad">cannot be used</Badge>}{skill.changed && <Badge tone="warn">changed</Badge>}{skill.update_available && <Badge tone="accent">{skill.release_version} is there</Badge>}</>}
                    note={<>{skill.problem && <span className="block text-bad">{skill.problem}</span>}{skill.description}</>}
                    actions={(
                      <>
                        {skill.update_available && org && <Button small onClick={() => setWanted({ org, name: skill.name, version: skill.release_version })}><Download size={14} aria-hidden />Update</Button>}
                        <IconButton label={`Details of ${skill.name}`} onClick={() => setShown(skill.id)}><Info size={16} /></IconButton>
                      </>
                    )}
                  />
                );
              })}
            </Rows>
          )}
        </Loaded>
      </Section>
      <Registry show={setShown} install={setWanted} />
      {shown && <Detail id={shown} close={() => setShown(undefined)} />}
      {wanted && <Install wanted={wanted} session={session} done={() => setWanted(undefined)} />}
      {uploading && <UploadDialog session={session} done={() => setUploading(false)} />}
    </>
  );
}

function Registry({ show, install }: { show: (id: string) => void; install: (wanted: Wanted) => void }) {
  const [text, setText] = useState('');
  const q = useDeferredValue(text.trim());
  const stats = useQuery({ queryKey: ['skill-store'], queryFn: ({ signal }) => api().getSkillStoreStats({ signal }), staleTime: 60_000 });
  const found = useQuery({ queryKey: ['skills', 'search', q], enabled: q !== '', queryFn: ({ signal }) => api().searchSkills({ query: { q, limit: 50 }, signal }) });
  const offered = useQuery({ queryKey: ['skills', 'registry'], enabled: q === '', queryFn: ({ signal }) => api().listRegistryResources({ query: { type: 'skill', limit: 100 }, signal }) });
  const hits = q
    ? found.data?.results.map(({ id, org, name, version, description }) => ({ id, org, name, version, description }))
    : offered.data?.items.map(({ id, owner, name, version, description }) => ({ id, org: owner, name, version, description }));
  const query = q ? found : offered;
  return (
    <Section title="Registry" note={stats.data ? `${counted(stats.data.skills, 'skill')} of ${counted(stats.data.organizations, 'publisher')}, ${counted(stats.data.versions, 'version')}.` : 'Skills that can be installed.'}>
      <label className="relative mb-3 block max-w-md">
        <span className="sr-only">Search skills</span><Search size={15} className="absolute top-2 left-2.5 text-soft" aria-hidden />
        <Input type="search" className="pl-8" placeholder="Search skills" value={text} onChange={(event) => setText(event.target.value)} />
      </label>
      <Loaded query={{ data: hits, error: query.error, refetch: query.refetch }} empty={<Empty icon={<Search size={28} />} title={q ? 'No skill is like that' : 'The registry is empty'}>{q ? 'Try other words.' : 'Skills are published by uploading them, or by a push to the git hosting service.'}</Empty>}>
        {(items) => (
          <Rows label="Skills of the registry">
            {items.map((hit) => (
              <Row
                key={hit.id} title={hit.name} badges={<>{hit.version && <Badge>{hit.version}</Badge>}{hit.org && <Badge>{hit.org}</Badge>}</>} note={hit.description}
                actions={(
                  <>
                    {q && <IconButton label={`Details of ${hit.name}`} onClick={() => show(hit.id)}><Info size={16} /></IconButton>}
                    {hit.org && <Button small onClick={() => install({ org: hit.org, name: hit.name })}><Download size={14} aria-hidden />Install<span className="sr-only"> {hit.name}</span></Button>}
                  </>
                )}
              />
            ))}
          </Rows>
        )}
      </Loaded>
    </Section>
  );
}

function Detail({ id, close }: { id: string; close: () => void }) {
  const skill = useQuery({ queryKey: ['skills', 'detail', id], queryFn: ({ signal }) => api().getSkill(id, { signal }) });
  return (
    <Dialog open onOpenChange={close} wide title={skill.data?.name ?? 'Skill'} description={skill.data?.description ?? ''}>
      <Loaded query={skill}>
        {(found) => (
          <div className="space-y-4">
            <Facts items={[
              ['Version', found.version || 'none'], ['Source', sources[found.source]], found.org ? ['Publisher', found.org] : undefined, found.installed_at ? ['Installed', dateTime(found.installed_at)] : undefined,
              found.required_env.length > 0 ? ['Needs variables', found.required_env.join(', ')] : undefined, found.permissions.length > 0 ? ['Says it needs', found.permissions.join(', ')] : undefined,
              ['Files', <ul key="files">{found.files.slice(0, 100).map((file) => <li key={file.path}><bdi>{file.path}</bdi> <span className="text-soft">{bytes(file.size)}</span></li>)}</ul>],
            ]} />
            <div className="rounded-lg border p-3"><Prose text={found.readme} /></div>
          </div>
        )}
      </Loaded>
    </Dialog>
  );
}

function Install({ wanted, session: given, done }: { wanted: Wanted; session: string; done: () => void }) {
  const [session, setSession] = useState(given);
  const install = useAction(() => api().installSkill(session, { org: wanted.org, name: wanted.name, ...(wanted.version ? { version: wanted.version } : {}) }), {
    done: (result) => `${result.name} ${result.version} was installed.`, refresh,
  });
  return (
    <FormDialog open onOpenChange={done} title={`Install ${wanted.name}`} confirm="Install" submit={() => install.mutateAsync()} description={`Of ${wanted.org}. The session gets it at once, your other sessions from then on.`}>
      <SessionChoice value={session} change={setSession} hint="Its workspace gets the package." />
    </FormDialog>
  );
}

function UploadDialog({ session: given, done }: { session: string; done: () => void }) {
  const [session, setSession] = useState(given);
  const [files, setFiles] = useState<File[]>([]);
  const [kind, setKind] = useState<'files' | 'directory'>('files');
  const picker = useRef<HTMLInputElement>(null);
  const upload = useAction(async () => api().uploadSkill(session, await readPackage(files), { timeoutMs: 300_000 }), {
    done: (result) => `${result.name} was ${result.overwritten ? 'replaced' : 'uploaded'}: ${counted(result.file_count, 'file')}.`, refresh,
  });
  return (
    <FormDialog open onOpenChange={done} title="Upload a skill" confirm="Upload" submit={() => upload.mutateAsync()} description="A directory with a SKILL.md, or its files. It goes to one session, and replaces a skill of the same name there.">
      <SessionChoice value={session} change={setSession} />
      <Field label="Package is">{(ids) => <Select {...ids} value={kind} onChange={(event) => { setKind(event.target.value as typeof kind); setFiles([]); }}><option value="files">single files</option><option value="directory">a directory</option></Select>}</Field>
      <Field label="Files" hint={files.length > 0 ? `${counted(files.length, 'file')}, ${bytes(files.reduce((sum, file) => sum + file.size, 0))}` : undefined}>
        {(ids) => (
          <input
            {...ids} key={kind} ref={picker} type="file" multiple required {...(kind === 'directory' ? { webkitdirectory: '' } : {})} onChange={(event) => setFiles([...(event.target.files ?? [])])}
            className="block w-full text-sm file:mr-3 file:h-8 file:cursor-pointer file:rounded-md file:border file:bg-raised file:px-3 file:text-ink"
          />
        )}
      </Field>
    </FormDialog>
  );
}
