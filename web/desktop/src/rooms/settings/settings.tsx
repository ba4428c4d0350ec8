import { TabbedPage } from '../../ui/tabs';
import { AccountPart } from './account';
import { Environment } from './environment';
import { Keys } from './keys';
import { PreferencesPart } from './preferences';

export default function Settings() {
  return (
    <TabbedPage
      title="Settings"
      tabs={[
        { id: 'account', label: 'Account', content: <AccountPart /> },
        { id: 'preferences', label: 'Preferences', content: <PreferencesPart /> },
        { id: 'keys', label: 'API keys', content: <Keys /> },
        { id: 'environment', label: 'Environment', content: <Environment /> },
      ]}
    />
  );
}
