import { t } from '../../lib/i18n';
import { Select } from '../../ui/field';
import { type Candidate, useCandidates } from './data';

const groups = { agent: t('Agents'), squad: t('Squads'), member: t('Members') };

/** AssigneeSelect chooses an agent, a squad or a member. */
export function AssigneeSelect({ workspace, value, change, ids, disabled }: {
  workspace: string; value: string; change: (candidate: Candidate | undefined) => void; ids?: object; disabled?: boolean;
}) {
  const candidates = useCandidates(workspace);
  const list = candidates.data ?? [];
  return (
    <Select
      {...ids}
      value={value}
      disabled={disabled || !candidates.data}
      onChange={(event) => change(list.find((one) => one.key === event.target.value))}
    >
      <option value="">{t('not assigned')}</option>
      {value && !list.some((one) => one.key === value) && <option value={value}>…</option>}
      {(['agent', 'squad', 'member'] as const).map((type) => {
        const some = list.filter((one) => one.type === type);
        return (
          some.length > 0 && (
            <optgroup key={type} label={groups[type]}>
              {some.map((one) => (
                <option key={one.key} value={one.key}>
                  {one.name}
                </option>
              ))}
            </optgroup>
          )
        );
      })}
    </Select>
  );
}
